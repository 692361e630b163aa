"""A job that is one run of a preset."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from heterofl_ray.cli import answer
from heterofl_ray.commands.run import show_result, train
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.jobs.calling import Smoke, announce, check, data_root, job_parser, make_config


def run_preset(
    preset: str, smoke: Smoke, about: str | None, words: Sequence[str] | None = None
) -> int:
    """Run ``preset`` as the command line says; the exit code."""
    arguments = job_parser(about).parse_args(words)
    return answer(lambda: _run(preset, smoke, arguments))


def _run(preset: str, smoke: Smoke, arguments: argparse.Namespace) -> None:
    config = make_config(arguments, preset, smoke)
    root = data_root(arguments)
    check(config, root)
    announce(config, arguments, preset)
    result = train(config, root, arguments.quiet)
    folder = Path(result.summary["run_dir"])
    report = write_report([folder], folder / "report")
    if arguments.json:
        show_result({**result.summary, "report": str(report)}, as_json=True)
        return
    show_result(result.summary, as_json=False)
    show_places(config, folder, report)


def write_report(runs: Sequence[Path], out: Path) -> Path:
    from heterofl_ray.reporting.report import write_report as write

    return write(runs, out)


def show_places(config: ExperimentConfig, run: Path, report: Path) -> None:
    """Where to look at what was done; ``run`` is one of the runs."""
    from heterofl_ray.tracking.destination import (
        chosen_uri,
        full_uri,
        is_on,
        is_server,
        without_password,
    )

    print(f"report in {report}")
    if is_on(config.tracking):
        uri = without_password(chosen_uri(config.tracking) or full_uri("", run))
        print(f"MLflow at {uri}" if is_server(uri) else f"mlflow ui --backend-store-uri {uri}")
    sys.stdout.flush()
