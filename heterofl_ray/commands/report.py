"""``heterofl-ray report``: plots and one HTML page about one run or several compared."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from heterofl_ray.commands.base import add_json, print_json
from heterofl_ray.errors import ConfigError
from heterofl_ray.reporting.folders import find_runs, is_sweep

NAME = "report"
ABOUT = "plots and one HTML page about a run, several compared, or a sweep"

_FORMATS = ("png", "svg")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN_OR_SWEEP",
        help="a run's folder, a sweep's, or a folder of runs",
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
    sweep = len(named) == 1 and is_sweep(named[0])
    runs = [] if sweep else find_runs(named)
    if arguments.out is not None:
        out = Path(arguments.out)
    else:
        out = named[0] / "report" if len(named) == 1 else Path("report")

    formats = _FORMATS if arguments.format is None else (arguments.format,)
    if sweep:
        from heterofl_ray.reporting.sweeps import write_sweep_report

        made = write_sweep_report(named[0], out, formats)
    else:
        from heterofl_ray.reporting.report import make_report

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
        if sweep:
            print(f"report on the sweep in {made.page}")
            return
        runs_text = "1 run" if len(made.runs) == 1 else f"{len(made.runs)} runs"
        print(f"report on {runs_text} in {made.page}")
