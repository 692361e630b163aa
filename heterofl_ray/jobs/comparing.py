"""A job that compares methods."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from heterofl_ray.cli import answer
from heterofl_ray.commands import compare
from heterofl_ray.jobs.calling import Smoke, announce, check, data_root, job_parser, make_config
from heterofl_ray.jobs.single import show_places


def run_comparison(
    default: str, smoke: Smoke, about: str | None, words: Sequence[str] | None = None
) -> int:
    """Compare as the command line says; the exit code."""
    parser = job_parser(about)
    parser.add_argument(
        "--preset", default=default, metavar="PRESET", help="what all have in common (%(default)s)"
    )
    compare.add_choice(parser)
    arguments = parser.parse_args(words)
    return answer(lambda: _run(smoke, arguments))


def _run(smoke: Smoke, arguments: argparse.Namespace) -> None:
    base = make_config(arguments, arguments.preset, smoke)
    plan = compare.plan_of(base, arguments)
    root = data_root(arguments)
    compare.check(plan, root)
    check(base, root)
    announce(base, arguments, arguments.preset)
    result = compare.compare(plan, root, arguments.quiet)
    compare.show(result, arguments.json)
    if not arguments.json:
        show_places(base, plan.folder, Path(result["report"]))
