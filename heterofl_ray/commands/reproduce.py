"""``heterofl-ray reproduce``: a table or figure of the papers, ours beside the printed one."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heterofl_ray.commands.base import add_data_dir, add_json, add_set, print_json, print_table
from heterofl_ray.commands.once import run_once
from heterofl_ray.commands.run import add_execution, execution_overrides
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.places import data_dir
from heterofl_ray.errors import ConfigError, Interrupted
from heterofl_ray.reproducing.catalog import NAMES, exhibit
from heterofl_ray.reproducing.exhibits import Cell
from heterofl_ray.reproducing.plan import Piece, ReproductionPlan
from heterofl_ray.tracking.folder import find_runs

if TYPE_CHECKING:
    from heterofl_ray.reproducing.budget import Choice
    from heterofl_ray.reproducing.outcome import Outcome

NAME = "reproduce"
ABOUT = "a table or figure of the papers: ours beside the printed values"
PROBE = 3
"""Rounds of the run that tells how fast this machine is."""


class ReproductionStopped(Interrupted):
    """The user or the system asked it to stop."""

    def __str__(self) -> str:
        return "stopped; the same command goes on, and repeats no run that is finished"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("exhibit", metavar="EXHIBIT", help=f"one of: {', '.join(NAMES)}")
    parser.add_argument(
        "--rows",
        metavar="A,B,…",
        help="rows by name, or by its first words: d-e, a-e:sbn",
    )
    parser.add_argument("--columns", metavar="A,B,…", help="such as iid (all)")
    parser.add_argument(
        "--rounds", type=int, metavar="N", help="fewer than the paper's; the schedule shrinks too"
    )
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="runs of each (1)")
    parser.add_argument(
        "--budget", type=float, metavar="MINUTES", help="only what fits; the rest is named"
    )
    parser.add_argument(
        "--full", action="store_true", help="the paper's scale, where the usual one is smaller"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be run, and run nothing"
    )
    parser.add_argument(
        "--out", default="runs/reproduce", metavar="FOLDER", help="of runs and tables (%(default)s)"
    )
    add_set(parser, "tracking.mlflow=false, for every run")
    add_execution(parser)
    add_data_dir(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> None:
    if arguments.budget is not None and not arguments.budget > 0:
        raise ConfigError.of("--budget", arguments.budget, "must be above 0, in minutes")
    root = data_dir(arguments.data_dir)
    wanted = exhibit(arguments.exhibit, arguments.full).choose(arguments.rows, arguments.columns)
    if any(text.partition("=")[0].strip() == "data" for text in arguments.set):
        wanted = wanted.on_other_data()
    whole = ReproductionPlan(
        wanted,
        arguments.seeds,
        arguments.rounds,
        (*arguments.set, *execution_overrides(arguments)),
        Path(arguments.out).expanduser().absolute(),
    )
    plan, reasons = whole.without_missing_data(root)
    say = _speaker(arguments.quiet)
    for reason in reasons.values():
        say(f"left out: {reason}")
    if arguments.dry_run:
        _list(plan, root, arguments.json)
        return
    outcome = reproduce(plan, root, arguments.quiet, arguments.budget, reasons)
    show(outcome, plan.folder, arguments.json)


def _speaker(quiet: bool) -> Any:
    def say(text: str) -> None:
        if not quiet:
            print(text, file=sys.stderr, flush=True)

    return say


def _list(plan: ReproductionPlan, root: Path, as_json: bool) -> None:
    """What there is, what was begun and what is still to run."""
    from heterofl_ray.runner import settled

    states: dict[str, list[str]] = {"finished": [], "begun": [], "to run": []}
    for piece in plan.pieces():
        finished, stopped = find_runs(settled(piece.config), root)
        state = "finished" if finished else "begun" if stopped else "to run"
        states[state].append(piece.name)
    if as_json:
        print_json(states)
        return
    for state, names in states.items():
        print(f"{state}: {len(names)}" + (f" ({', '.join(names)})" if names else ""))


def reproduce(
    plan: ReproductionPlan,
    root: Path,
    quiet: bool,
    budget: float | None,
    reasons: Mapping[str, str],
) -> Outcome:
    """Do all runs that are not there yet; the table is written anew after each."""
    from heterofl_ray.reproducing import pages, pictures
    from heterofl_ray.runner import settled
    from heterofl_ray.tracking.destination import check_destination
    from heterofl_ray.tracking.sweeps import SweepRecorder

    pieces = plan.pieces()
    check_destination(pieces[0].config.tracking)
    for piece in pieces:
        settled(piece.config)  # refused before the first run
    left_out = dict(reasons)
    if budget is not None:
        choice = _choose(pieces, root, 60 * budget, quiet)
        pieces = list(choice.chosen)
        left_out |= _told(choice, _speaker(quiet))
    recorder = SweepRecorder(
        pieces[0].config, plan.folder, {"exhibit": plan.exhibit.name, "runs": str(len(pieces))}
    )
    plan.folder.mkdir(parents=True, exist_ok=True)
    runs: dict[str, Path] = {}
    try:
        with recorder:
            for number, piece in enumerate(pieces, 1):
                config = piece.config.override(recorder.overrides())
                name = f"{number}/{len(pieces)} {piece.name}"
                result, _ = run_once(config, root, quiet, name)
                runs[piece.key] = Path(result.summary["run_dir"])
                outcome = collect(plan, runs, left_out)
                pages.write(outcome, [pictures.draw(outcome)], plan.folder)
                recorder.run_done()
    except Interrupted as stop:
        raise ReproductionStopped(stop.code, stop.round_number, plan.folder) from None
    finally:
        recorder.settle(_speaker(quiet))
    return outcome


def _choose(pieces: Sequence[Piece], root: Path, seconds: float, quiet: bool) -> Choice:
    """What fits into the time, learnt from what was run here before or from a short try."""
    from heterofl_ray.reproducing.budget import Guess, fit, nominal_seconds
    from heterofl_ray.runner import settled

    began = time.monotonic()
    nominal = {piece.key: nominal_seconds(settled(piece.config), root) for piece in pieces}
    cheapest = min(pieces, key=lambda piece: nominal[piece.key] / piece.config.rounds)
    a_round = nominal[cheapest.key] / cheapest.config.rounds
    slowness = _seconds_of_a_round(cheapest.config, root, quiet) / a_round
    guesses = []
    for piece in pieces:
        finished, _ = find_runs(settled(piece.config), root)
        guesses.append(Guess(piece, 0.0 if finished else slowness * nominal[piece.key]))
    choice = fit(guesses, seconds - (time.monotonic() - began))
    if not choice.chosen:
        least = min(choice.left_out.values())
        raise ConfigError.of(
            "--budget", seconds / 60, f"the quickest run takes {least:.0f} minutes here"
        )
    return choice


def _seconds_of_a_round(config: ExperimentConfig, root: Path, quiet: bool) -> float:
    """By a short try, of which the first round does not count: it compiles and loads."""
    import tempfile

    from heterofl_ray.reproducing.plan import shortened
    from heterofl_ray.runner import run

    _speaker(quiet)(f"{PROBE} rounds to see how fast this machine is")
    with tempfile.TemporaryDirectory() as place:
        tried = shortened(config, PROBE).override(
            [f"tracking.root={place}", "tracking.mlflow=false", f"evaluate_every={PROBE}"]
        )
        seconds = run(tried, data_dir=root).history.column("seconds").to_pylist()
    return min(float(each) for each in seconds[1:])


def _told(choice: Choice, say: Any) -> dict[str, str]:
    """Say what the time is not enough for."""
    told = {name: f"has {rounds} rounds in the time" for name, rounds in choice.shortened.items()}
    for name, minutes in choice.left_out.items():
        told[name] = f"would take {minutes:.0f} minutes more"
    for name, reason in told.items():
        say(f"{name} {reason}")
    return told


def collect(
    plan: ReproductionPlan, runs: Mapping[str, Path], left_out: Mapping[str, str]
) -> Outcome:
    """Every row with the runs there are of it."""
    from heterofl_ray.reporting.runs import open_runs
    from heterofl_ray.reproducing.outcome import Answer, Answered, Outcome

    opened = dict(zip(runs, open_runs(list(runs.values())), strict=True))

    def answer(cell: Cell) -> Answer:
        return Answer(cell, [opened[key] for key in plan.keys(cell) if key in opened])

    rows = [Answered(row, [answer(cell) for cell in row.cells]) for row in plan.exhibit.rows]
    return Outcome(plan.exhibit, rows, left_out)


def show(outcome: Outcome, folder: Path, as_json: bool) -> None:
    from heterofl_ray.reproducing import pages

    if as_json:
        print_json({**outcome.to_dict(), "folder": str(folder)})
        return
    from rich.table import Table

    shown = pages.table(outcome)
    labels = len(outcome.exhibit.rows[0].labels)
    table = Table(title=f"{outcome.exhibit.title}: {outcome.metric}")
    for place, heading in enumerate(shown.headings):
        table.add_column(heading, justify="left" if place < labels else "right", no_wrap=True)
    for row in shown.rows:
        table.add_row(*row)
    print_table(table, wide=True)
    for note in outcome.notes:
        print(note)
    for name, reason in outcome.left_out.items():
        print(f"left out: {name} {reason}")
    print(f"table and picture in {folder}")
