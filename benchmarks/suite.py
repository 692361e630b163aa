"""The suite as a whole: its themes, what is shown of them and kept, and when it fails.

A full run took nine and a half minutes on two quiet cores that had every step to compile first;
``--quick`` takes one and a half: smaller jobs, which nothing is compiled for, one repeat, bounds
judged only where they are for such jobs too. What is not about speed, or takes minutes of its own,
is run when it is named.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.compare import regressions
from benchmarks.measure import Figure, shown
from benchmarks.record import place, read, record
from heterofl_ray.errors import ConfigError

# A theme is a module with NAME, ABOUT and measure(quick); imported when it is run, so that a
# mistake is answered before torch is there. Those that start processes of their own come first,
# while no Ray of ours is there beside them.
ALONE = {
    "fedavg": "benchmarks.fedavg.theme",
    "data-pipeline": "benchmarks.data_pipeline",
    "population": "benchmarks.population",
    "methods": "benchmarks.methods",
    "tracking": "benchmarks.tracking",
}
ON_RAY = {
    "rounds": "benchmarks.rounds",
    "scaling": "benchmarks.scaling",
    "runtime": "benchmarks.runtime",
    "endurance": "benchmarks.endurance",
}
THEMES = {**ALONE, **ON_RAY}
WHEN_NAMED = ("methods", "tracking", "endurance")
SUITE = tuple(name for name in THEMES if name not in WHEN_NAMED)


def run(arguments: argparse.Namespace) -> int:
    """Measure, show and keep; 1 when a bound is missed or a ratio has become worse."""
    names = _chosen(arguments.names)
    _check(arguments)
    if arguments.data_dir:
        os.environ["HETEROFL_DATA_DIR"] = str(Path(arguments.data_dir).absolute())
    _let_processes_find_us()
    before = read()
    if arguments.quick:
        _say("quick: jobs too small to be compiled for; the ratios of full ones are higher")
    figures: list[Figure] = []
    with ExitStack() as stack:
        for name in names:
            if name in ON_RAY:
                import_module("benchmarks.pool").ensure_ray(stack)
            theme = import_module(THEMES[name])
            _say(f"{name}: {theme.ABOUT}")
            began = time.perf_counter()
            measured = theme.measure(arguments.quick)
            _say(f"{name} took {time.perf_counter() - began:.0f} s")
            if arguments.record:
                record(name, theme.ABOUT, measured)
            figures += measured
    return _show(figures, arguments, regressions(figures, before) if arguments.compare else [])


def _chosen(names: Sequence[str]) -> list[str]:
    """The themes that are named, or all of the suite, in its order."""
    for name in names:
        if name not in THEMES:
            raise ConfigError.unknown("NAME", name, THEMES)
    return [name for name in THEMES if name in (names or SUITE)]


def _check(arguments: argparse.Namespace) -> None:
    for option in ("record", "compare"):
        if arguments.quick and getattr(arguments, option):
            raise ConfigError(f"--{option} is for full runs: leave out --quick")
    if arguments.compare and not read():
        raise ConfigError(
            f"--compare: nothing is recorded of this machine in {place()}; use --record first"
        )


def _let_processes_find_us() -> None:
    root = str(Path(__file__).parent.parent)
    others = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([root, others] if others else [root])


def _show(figures: Sequence[Figure], arguments: argparse.Namespace, worse: Sequence[str]) -> int:
    for figure in figures:
        _say(f"{figure.name}: {figure.about}")
    Console(stderr=arguments.json, highlight=False).print(_table(figures))
    missed = [figure for figure in figures if not figure.holds]
    for figure in missed:
        _say(f"bound missed: {figure.name} is {shown(figure.median)}, should be {figure.bound}")
    for line in worse:
        _say(f"has become worse: {line}")
    if arguments.json:
        ratios = {figure.name: figure.to_dict() for figure in figures}
        print(json.dumps({"ratios": ratios}), flush=True)
    return 1 if missed or worse else 0


def _table(figures: Sequence[Figure]) -> Table:
    table = Table("ratio")
    for heading in ("median", "low", "high", "bound"):
        table.add_column(heading, justify="right")
    table.add_column("holds")
    for figure in figures:
        table.add_row(
            figure.name,
            shown(figure.median),
            shown(min(figure.values)),
            shown(max(figure.values)),
            figure.bound,
            ("yes" if figure.holds else "NO") if figure.bound else "",
        )
    return table


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
