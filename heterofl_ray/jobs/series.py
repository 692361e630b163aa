"""A job that is a series of runs: each is done once, and all are compared at the end.

A run is known by its config's hash. One that is finished in the root is not repeated, one that was
stopped is gone on with: a series that was interrupted is simply started again.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heterofl_ray import presets
from heterofl_ray.cli import answer
from heterofl_ray.commands.base import print_json, print_table
from heterofl_ray.commands.once import run_once
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.jobs.calling import Smoke, announce, check, data_root, make_config
from heterofl_ray.jobs.single import show_places, write_report
from heterofl_ray.reporting.numbers import short_number

if TYPE_CHECKING:
    from heterofl_ray.result import RunResult


@dataclass(frozen=True)
class Entry:
    """One run of a series: what tells it from the others, and what the paper has for it."""

    columns: Mapping[str, str]
    preset: str
    smoke: Smoke
    settings: Sequence[str] = ()
    paper: Mapping[str, float] = field(default_factory=dict)
    """By 'global' and 'local': the score that is the task's first."""

    @property
    def name(self) -> str:
        return ", ".join(self.columns.values())


@dataclass(frozen=True)
class Done:
    entry: Entry
    config: ExperimentConfig
    result: RunResult
    found: bool
    """It was finished before."""

    def score(self, kind: str) -> float | None:
        scores: Mapping[str, float] = self.result.summary[kind]
        return next(iter(scores.values()), None)


def run_series(
    title: str,
    parser: argparse.ArgumentParser,
    make_entries: Callable[[argparse.Namespace], Sequence[Entry]],
    words: Sequence[str] | None = None,
) -> int:
    """Run what ``make_entries`` makes of the command line; the exit code."""
    arguments = parser.parse_args(words)
    return answer(lambda: _run(title, make_entries(arguments), arguments))


def _run(title: str, entries: Sequence[Entry], arguments: argparse.Namespace) -> None:
    root = data_root(arguments)
    configs = [make_config(arguments, e.preset, e.smoke, e.settings) for e in entries]
    for config in configs:
        check(config, root)
    entries = [_comparable(*pair) for pair in zip(entries, configs, strict=True)]
    announce(configs[0], arguments, entries[0].preset)
    runs: dict[str, tuple[RunResult, bool]] = {}
    done = []
    for number, (entry, config) in enumerate(zip(entries, configs, strict=True), 1):
        key = config.hash()
        if key not in runs:
            name = f"{number}/{len(entries)} {entry.name}"
            runs[key] = run_once(config, root, arguments.quiet, name)
        done.append(Done(entry, config, *runs[key]))
    folders = [Path(result.summary["run_dir"]) for result, _ in runs.values()]
    out = Path(configs[0].tracking.root) / f"{title.replace(' ', '-')}-report"
    report = write_report(folders, out)
    if arguments.json:
        print_json({"runs": [_plain(each) for each in done], "report": str(report)})
        return
    _show(title, done)
    show_places(configs[0], folders[0], report)


def _comparable(entry: Entry, config: ExperimentConfig) -> Entry:
    """Without the paper's scores where the data is not the paper's."""
    same = config.data == presets.load(entry.preset).data
    return entry if same else replace(entry, paper={})


def _plain(done: Done) -> dict[str, Any]:
    summary = done.result.summary
    return {
        **done.entry.columns,
        "found": done.found,
        "parameters": average_parameters(done),
        **{key: summary[key] for key in ("run_dir", "rounds", "seconds", "global", "local")},
        "model_sha256": summary["model_sha256"],
        "paper": dict(done.entry.paper),
    }


def average_parameters(done: Done) -> float:
    """Of the mix's average client: the horizontal axis of the paper's figures."""
    from heterofl_ray.models.costs import mix_costs, model_costs

    mix = done.config.levels
    costs = [model_costs(done.result.spec.at(level), level.rate) for level in mix.levels]
    return mix_costs(mix, costs).parameters


def _show(title: str, done: Sequence[Done]) -> None:
    from rich.table import Table

    metric = next(iter(done[0].result.summary["global"]))
    table = Table(title=f"{title}: {metric}")
    for heading in done[0].entry.columns:
        table.add_column(heading, no_wrap=True)
    table.add_column("parameters", justify="right", no_wrap=True)
    alike = all(each.score("local") in (None, each.score("global")) for each in done)
    kinds = ["global"] if alike else ["global", "local"]
    printed = [kind for kind in kinds if any(kind in each.entry.paper for each in done)]
    for kind in kinds:
        table.add_column(kind, justify="right")
        if kind in printed:
            table.add_column("paper", justify="right")
    for each in done:
        row = [*each.entry.columns.values(), short_number(average_parameters(each))]
        for kind in kinds:
            row.append(_number(each.score(kind)))
            if kind in printed:
                row.append(_number(each.entry.paper.get(kind)))
        table.add_row(*row)
    print_table(table, wide=True)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
