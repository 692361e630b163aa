"""``heterofl-ray sweep``: search settings for the best global model a budget allows."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heterofl_ray import preflight
from heterofl_ray.commands.base import add_data_dir, add_json, add_set, print_json, print_table
from heterofl_ray.commands.run import add_execution
from heterofl_ray.data.places import data_dir, stored
from heterofl_ray.errors import ConfigError
from heterofl_ray.tuning.plan import SweepPlan, load_plan, read_plan
from heterofl_ray.tuning.presets import SWEEPS

if TYPE_CHECKING:
    from heterofl_ray.tuning.sweep import SweepResult

NAME = "sweep"
ABOUT = "search shrink ratios, levels, shares and any setting; 'sweep best' shows a sweep's front"
BEST = "best"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        nargs="*",
        metavar="PRESET_OR_YAML",
        help=f"a YAML file with a sweep group, or one of: {', '.join(SWEEPS)}; or: best SWEEP",
    )
    parser.add_argument("--trials", metavar="N", help="points to train (sweep.trials)")
    parser.add_argument("--resume", metavar="SWEEP", help="go on with the sweep in this folder")
    add_set(parser, "rounds=5, sweep.sampler=nsga2 or 'sweep.space.lr={low: 0.01, high: 0.1}'")
    add_execution(parser)
    add_data_dir(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> None:
    if arguments.what[:1] == [BEST]:
        _best(arguments)
        return
    wanted = [*arguments.what, *([arguments.resume] if arguments.resume else [])]
    if len(wanted) != 1:
        raise ConfigError(
            "sweep: name one preset or YAML file, or --resume SWEEP, or 'best SWEEP' "
            f"(presets: {', '.join(SWEEPS)})"
        )
    overrides = overrides_of(arguments)
    if arguments.resume:
        show(go_on(Path(arguments.resume), overrides, arguments), arguments.json)
        return
    plan = load_plan(arguments.what[0]).override(overrides)
    root = data_dir(arguments.data_dir)
    check(plan, root)
    show(search(plan, root, arguments.quiet), arguments.json)


def overrides_of(arguments: argparse.Namespace) -> list[str]:
    """What the options set. A sweep is always on Ray; its trials are only if asked for."""
    overrides = list(arguments.set)
    for name, value in (
        ("execution.address", arguments.address),
        ("execution.backend", arguments.backend),
        ("sweep.trials", arguments.trials),
    ):
        if value is not None:
            overrides.append(f"{name}={value}")
    return overrides


def check(plan: SweepPlan, root: Path) -> None:
    """Refuse what cannot be run before anything heavy is imported."""
    plan.check()
    preflight.check(plan.base, stored(root))


def search(plan: SweepPlan, root: Path, quiet: bool) -> SweepResult:
    from heterofl_ray.tuning.sweep import start

    return start(plan, data_dir=root, say=_sayer(quiet))


def go_on(folder: Path, overrides: Sequence[str], arguments: argparse.Namespace) -> SweepResult:
    before, _ = read_plan(folder)
    before.override(overrides).check()

    from heterofl_ray.tuning.sweep import resume

    return resume(
        folder, overrides=overrides, data_dir=arguments.data_dir, say=_sayer(arguments.quiet)
    )


def _sayer(quiet: bool) -> Any:
    def say(text: str) -> None:
        if not quiet:
            print(text, file=sys.stderr, flush=True)

    return say


def _best(arguments: argparse.Namespace) -> None:
    """The front of a sweep, finished or not, and its points as files."""
    if len(arguments.what) != 2:
        raise ConfigError("sweep best: name one sweep's folder")
    folder = Path(arguments.what[1])
    plan, _ = read_plan(folder)

    from heterofl_ray.reporting.sweep_records import read_records
    from heterofl_ray.tuning.front import front_of, write_jobs

    records = read_records(folder)
    show_front(folder, records, write_jobs(folder, plan, front_of(records)), arguments.json)


def show(result: SweepResult, as_json: bool) -> None:
    show_front(result.folder, result.records, result.jobs, as_json)


def show_front(
    folder: Path, records: Mapping[str, Any], jobs: Mapping[int, Sequence[str]], as_json: bool
) -> None:
    from heterofl_ray.tuning.front import counts, figure, front_of

    front = front_of(records)
    if as_json:
        print_json(
            {
                "sweep_dir": str(folder),
                "objectives": records["objectives"],
                "constraints": records["constraints"],
                "trials": counts(records),
                "front": [_plain(trial, folder, jobs) for trial in front],
                "importance": records["importance"],
            }
        )
        return
    from rich.table import Table

    table = Table(title="the front: no trial is better in every objective")
    table.add_column("trial", justify="right")
    for objective in records["objectives"]:
        table.add_column(objective["name"], justify="right")
    settings = list(dict.fromkeys(name for trial in front for name in trial["settings"]))
    for name in settings:
        table.add_column(name, overflow="fold")
    for trial in front:
        spread = trial["spread"]
        values = [
            figure(value) + (f" ± {figure(spread[name])}" if name in spread else "")
            for name, value in trial["values"].items()
        ]
        row = [figure(trial["settings"].get(name, "")) for name in settings]
        table.add_row(str(trial["number"]), *values, *row)
    print_table(table, wide=True)
    told = ", ".join(f"{count} {state}" for state, count in counts(records).items())
    print(f"trials: {told}\nsweep kept in {folder}")
    if jobs:
        print(f"run one again with: heterofl-ray run {next(iter(jobs.values()))[0]}")


def _plain(
    trial: Mapping[str, Any], folder: Path, jobs: Mapping[int, Sequence[str]]
) -> dict[str, Any]:
    return {
        "trial": trial["number"],
        "values": trial["values"],
        "spread": trial["spread"],
        "scores": trial["by_seed"],
        "settings": trial["settings"],
        "runs": [str(folder / run) for run in trial["runs"]],
        "jobs": list(jobs.get(trial["number"], ())),
    }
