"""``heterofl-ray report``: plots and one HTML page about one run or several compared."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from heterofl_ray.commands.base import add_json, print_json
from heterofl_ray.errors import ConfigError
from heterofl_ray.reporting.folders import find_runs

NAME = "report"
ABOUT = "plots and one HTML page about a run, or several compared"

_FORMATS = ("png", "svg")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help="a run's folder, or a folder of runs"
    )
    parser.add_argument(
        "--out", metavar="DIR", help="where to write (RUN/report; for several: report)"
    )
    parser.add_argument("--format", metavar="png|svg", help="only these files of the plots (both)")
    parser.add_argument("--open", action="store_true", help="show the page in a browser")
    add_json(parser)


def execute(arguments: argparse.Namespace) -> None:
    if arguments.format is not None and arguments.format not in _FORMATS:
        raise ConfigError.unknown("--format", arguments.format, _FORMATS)
    named = [Path(text) for text in arguments.runs]
    runs = find_runs(named)
    if arguments.out is not None:
        out = Path(arguments.out)
    else:
        out = named[0] / "report" if len(named) == 1 else Path("report")

    from heterofl_ray.reporting.report import make_report

    formats = _FORMATS if arguments.format is None else (arguments.format,)
    made = make_report(runs, out, formats)
    for title, reason in made.left_out.items():
        print(f"left out: {title}: {reason}", file=sys.stderr)
    if arguments.open:
        import webbrowser

        if not webbrowser.open(made.page.absolute().as_uri()):
            print("no browser could be started", file=sys.stderr)
    if arguments.json:
        print_json(
            {
                "report": str(made.page),
                "runs": [str(run) for run in made.runs],
                "figures": {
                    name: [str(out / f"{name}.{kind}") for kind in formats] for name in made.figures
                },
                "left_out": made.left_out,
            }
        )
    else:
        runs_text = "1 run" if len(made.runs) == 1 else f"{len(made.runs)} runs"
        print(f"report on {runs_text} in {made.page}")
