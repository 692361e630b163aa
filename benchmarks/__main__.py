"""``python -m benchmarks [NAME …] [--quick] [--json] [--record]``: run the speed suite."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from types import ModuleType

from rich.console import Console
from rich.table import Table

from benchmarks import data_pipeline, endurance, population, runtime
from benchmarks.measure import Figure
from benchmarks.record import record

THEMES: tuple[ModuleType, ...] = (data_pipeline, population, runtime, endurance)


def main(arguments: Sequence[str] | None = None) -> int:
    themes = {theme.NAME: theme for theme in THEMES}
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(themes)}")
    parser.add_argument("--quick", action="store_true", help="small sizes, few repeats")
    parser.add_argument("--json", action="store_true", help="the ratios as JSON, nothing else")
    parser.add_argument("--record", action="store_true", help="keep them in benchmarks/results")
    parsed = parser.parse_args(arguments)
    unknown = [name for name in parsed.names if name not in themes]
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; there are: {', '.join(themes)}")
    if parsed.quick and parsed.record:
        parser.error("--record keeps full runs only; leave out --quick")

    figures: list[Figure] = []
    console = Console(stderr=parsed.json, highlight=False)
    for name in parsed.names or themes:
        theme = themes[name]
        print(f"{name}: {theme.ABOUT}", file=sys.stderr, flush=True)
        measured = theme.measure(parsed.quick)
        if parsed.record:
            record(name, theme.ABOUT, measured)
        figures += measured
    for figure in figures:
        print(f"{figure.name}: {figure.about}", file=sys.stderr)
    console.print(_table(figures))
    print(json.dumps({"ratios": {figure.name: figure.to_dict() for figure in figures}}), flush=True)
    return 0 if all(figure.holds for figure in figures) else 1


def _table(figures: Sequence[Figure]) -> Table:
    table = Table("ratio")
    for heading in ("median", "low", "high", "bound"):
        table.add_column(heading, justify="right")
    table.add_column("holds")
    for figure in figures:
        table.add_row(
            figure.name,
            f"{figure.median:.3g}",
            f"{min(figure.values):.3g}",
            f"{max(figure.values):.3g}",
            figure.bound,
            "yes" if figure.holds else "NO",
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
