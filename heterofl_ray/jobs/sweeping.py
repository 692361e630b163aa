"""A job that is a sweep."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from heterofl_ray.cli import answer
from heterofl_ray.commands import sweep
from heterofl_ray.jobs.calling import Smoke, base_dir, check, data_root, job_parser
from heterofl_ray.jobs.single import show_places
from heterofl_ray.tuning.plan import SweepPlan, load_plan, read_plan
from heterofl_ray.tuning.presets import SWEEPS


def run_sweep(
    default: str, smoke: Smoke, about: str | None, words: Sequence[str] | None = None
) -> int:
    """Search as the command line says; the exit code. ``smoke`` names a sweep."""
    parser = job_parser(about)
    parser.add_argument("--sweep", choices=list(SWEEPS), default=default, help="(%(default)s)")
    parser.add_argument("--trials", metavar="N", help="points to train (sweep.trials)")
    parser.add_argument("--resume", metavar="SWEEP", help="go on with the sweep in this folder")
    arguments = parser.parse_args(words)
    return answer(lambda: _run(smoke, arguments))


def _run(smoke: Smoke, arguments: argparse.Namespace) -> None:
    given = sweep.overrides_of(arguments)
    if arguments.resume:
        folder = base_dir() / Path(arguments.resume).expanduser()
        result = sweep.go_on(folder, given, arguments)
    else:
        plan = _plan(smoke, arguments, given)
        root = data_root(arguments)
        sweep.check(plan, root)
        check(plan.base, root)
        if not arguments.quiet:
            place = plan.base.tracking.root
            print(f"the sweep is kept in {place}", file=sys.stderr, flush=True)
        result = sweep.search(plan, root, arguments.quiet)
    from heterofl_ray.reporting.sweeps import write_sweep_report

    report = write_sweep_report(result.folder, result.folder / "report").page
    sweep.show(result, arguments.json)
    if not arguments.json:
        show_places(read_plan(result.folder)[0].base, result.folder, report)


def _plan(smoke: Smoke, arguments: argparse.Namespace, given: Sequence[str]) -> SweepPlan:
    chosen = smoke if arguments.smoke else Smoke(arguments.sweep)
    plan = load_plan(chosen.preset).override([*chosen.settings, *given])
    root = base_dir() / Path(plan.base.tracking.root).expanduser()
    return plan.override([f"tracking.root={root}"])
