"""``heterofl-ray compare``: several methods on one data set, with several seeds."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heterofl_ray import preflight, presets
from heterofl_ray.commands.base import (
    add_data_dir,
    add_json,
    add_set,
    print_json,
    print_table,
)
from heterofl_ray.commands.once import run_once
from heterofl_ray.commands.run import add_execution, execution_overrides
from heterofl_ray.comparing.plan import ALIASES, MATCHED, USUAL, ComparisonPlan
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.places import data_dir, stored
from heterofl_ray.errors import ConfigError, Interrupted
from heterofl_ray.reporting.numbers import short_number
from heterofl_ray.tracking.folder import COMPARISON_FILE, REPORT

if TYPE_CHECKING:
    from heterofl_ray.comparing.matching import Matching
    from heterofl_ray.reporting.methods import MethodRuns
    from heterofl_ray.tracking.sweeps import SweepRecorder

NAME = "compare"
ABOUT = "several methods on one data set, with several seeds: a table, a figure, a page"


class ComparisonStopped(Interrupted):
    """The user or the system asked the comparison to stop."""

    def __str__(self) -> str:
        return "stopped; the same command goes on, and repeats no run that is finished"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "experiment",
        metavar="PRESET_OR_YAML",
        help="what all have in common: methods-digits, any other preset, or a YAML file",
    )
    add_choice(parser)
    add_set(parser, "rounds=50, for all methods")
    add_execution(parser)
    add_data_dir(parser)
    add_json(parser)


def add_choice(parser: argparse.ArgumentParser) -> None:
    """What is compared."""
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="runs of each method")
    parser.add_argument(
        "--methods", metavar="A,B,…", help=f"with commas between ({','.join(USUAL)})"
    )
    parser.add_argument(
        "--match",
        metavar="COST",
        help=f"{', '.join(MATCHED)}: fedavg and standalone have the width whose cost is nearest to "
        "that of the mix's average client",
    )


def execute(arguments: argparse.Namespace) -> None:
    overrides = [*arguments.set, *execution_overrides(arguments)]
    base = presets.load(arguments.experiment).override(overrides)
    plan = plan_of(base, arguments)
    root = data_dir(arguments.data_dir)
    check(plan, root)
    result = compare(plan, root, arguments.quiet)
    show(result, arguments.json)
    if not arguments.json:
        print(f"report in {result['report']}")


def plan_of(base: ExperimentConfig, arguments: argparse.Namespace) -> ComparisonPlan:
    for text in arguments.set:
        if text.partition("=")[0].strip() == "method":
            raise ConfigError("--set method: a comparison's methods are named with --methods")
    return ComparisonPlan.of(base, arguments.methods, arguments.seeds, arguments.match)


def check(plan: ComparisonPlan, root: Path) -> None:
    """Refuse what cannot be run before anything heavy is imported."""
    for method in plan.methods:
        preflight.check(plan.config(method, plan.seeds[0]), stored(root))


def compare(plan: ComparisonPlan, root: Path, quiet: bool) -> dict[str, Any]:
    """Do all runs that are not there yet; what they come to is the JSON of the command."""
    from heterofl_ray.comparing.matching import match
    from heterofl_ray.runner import settled
    from heterofl_ray.tracking.destination import check_destination
    from heterofl_ray.tracking.sweeps import SweepRecorder

    def say(text: str) -> None:
        if not quiet:
            print(text, file=sys.stderr, flush=True)

    check_destination(plan.base.tracking)
    compared = [plan.config(method, plan.seeds[0]) for method in plan.methods]
    matching = match([*compared, plan.base], root, plan.match) if plan.match else None
    for method in plan.methods:  # refused before the first run
        settled(_config(plan, method, plan.seeds[0], matching))
    folder = plan.folder
    folder.mkdir(parents=True, exist_ok=True)
    marker = folder / COMPARISON_FILE
    if not marker.exists():
        marker.write_text("{}\n", encoding="utf-8")
    recorder = SweepRecorder(plan.base, folder, {"method": ",".join(plan.methods)})
    try:
        with recorder:
            result = _run_all(plan, root, quiet, matching, recorder)
            marker.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    except Interrupted as stop:
        raise ComparisonStopped(stop.code, stop.round_number, folder) from None
    finally:
        recorder.settle(say)
    return result


def _config(
    plan: ComparisonPlan, method: str, seed: int, matching: Matching | None
) -> ExperimentConfig:
    config = plan.config(method, seed)
    if matching is not None and method in plan.matched:
        return config.with_one_level(matching.level)
    return config


def _run_all(
    plan: ComparisonPlan,
    root: Path,
    quiet: bool,
    matching: Matching | None,
    recorder: SweepRecorder,
) -> dict[str, Any]:
    """Seed by seed, so that methods can be compared before all is done."""
    folders: dict[str, list[Path]] = {method: [] for method in plan.methods}
    found = 0
    pairs = [(method, seed) for seed in plan.seeds for method in plan.methods]
    for number, (method, seed) in enumerate(pairs, 1):
        config = _config(plan, method, seed, matching).override(recorder.overrides())
        name = f"{number}/{len(pairs)} {method}, seed {seed}"
        result, was_there = run_once(config, root, quiet, name)
        folders[method].append(Path(result.summary["run_dir"]))
        found += was_there
        recorder.run_done()

    from heterofl_ray.reporting.methods import MethodRuns, methods_plot
    from heterofl_ray.reporting.report import make_report
    from heterofl_ray.reporting.runs import open_runs

    rows = [MethodRuns(method, open_runs(places)) for method, places in folders.items()]
    every = [place for places in folders.values() for place in places]
    report = make_report(every, plan.folder / REPORT, first=[methods_plot(rows)])
    return {
        "comparison_dir": str(plan.folder),
        "data": plan.base.data,
        "rounds": plan.base.rounds,
        "seeds": list(plan.seeds),
        "metric": rows[0].metric.name,
        "matched": None if matching is None else _matched(matching, plan),
        "found": found,
        "methods": [_plain(row) for row in rows],
        "report": str(report.page),
        "figure": str(plan.folder / REPORT / "methods.png"),
    }


def _matched(matching: Matching, plan: ComparisonPlan) -> dict[str, Any]:
    return {
        "cost": matching.cost,
        "rate": matching.level.rate,
        "value": matching.value,
        "mean": matching.mean,
        "of": matching.method,
        "methods": list(plan.matched),
    }


def _plain(row: MethodRuns) -> dict[str, Any]:
    from heterofl_ray.reporting.methods import FIGURES

    measured = {name: row.measured(name) for name in FIGURES}
    return {
        "name": row.name,
        "method": ALIASES.get(row.name, row.name),
        "mix": row.runs[0].config.mix,
        "note": row.note,
        **{
            name: None
            if each is None
            else {"mean": each.mean, "spread": each.spread, "values": list(each.values)}
            for name, each in measured.items()
        },
        "runs": [str(run.folder) for run in row.runs],
    }


def show(result: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(result)
        return
    from rich.table import Table

    seeds = len(result["seeds"])
    table = Table(title=f"{result['metric']} on {result['data']}, {result['rounds']} rounds")
    table.add_column("method", no_wrap=True)
    for heading in ("mix", "global", "local", "client parameters", "GFLOPs", "MB moved", "seconds"):
        table.add_column(heading, justify="left" if heading == "mix" else "right", no_wrap=True)
    for row in result["methods"]:
        parameters = row["client_parameters"]
        table.add_row(
            row["name"],
            row["mix"],
            _with_spread(row["global"], ".2f"),
            _with_spread(row["local"], ".2f"),
            "" if parameters is None else short_number(parameters["mean"]),
            _with_spread(row["gflops"], ".1f"),
            _with_spread(row["megabytes"], ".1f"),
            _with_spread(row["seconds"], ".1f"),
        )
    print_table(table, wide=True)
    if seeds > 1:
        print(f"mean ± standard deviation over {seeds} seeds")
    if result["matched"]:
        print(_matched_line(result["matched"]))
    for row in result["methods"]:
        if row["note"]:
            print(f"{row['name']}: {row['note']}")
    print(f"figure in {result['figure']}")


def _with_spread(measured: Mapping[str, Any] | None, form: str) -> str:
    if measured is None:
        return ""
    spread = measured["spread"]
    mean = format(measured["mean"], form)
    return mean if spread is None else f"{mean} ± {format(spread, form)}"


def _matched_line(matched: Mapping[str, Any]) -> str:
    return (
        f"matched by {matched['cost']}: {' and '.join(matched['methods'])} with rate "
        f"{matched['rate']:g} ({short_number(matched['value'])}), nearest to the average client of "
        f"{matched['of']} ({short_number(matched['mean'])}, "
        f"{matched['value'] / matched['mean'] - 1:+.1%})"
    )
