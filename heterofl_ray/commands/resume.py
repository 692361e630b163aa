"""``heterofl-ray resume``: go on with a run that was stopped."""

from __future__ import annotations

import argparse
from pathlib import Path

from heterofl_ray.commands.base import add_data_dir, add_json
from heterofl_ray.commands.run import add_execution, execution_overrides, show_result
from heterofl_ray.errors import DataError

NAME = "resume"
ABOUT = "go on with a run from its last checkpoint; the result is what it would have been"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN_DIR", help="the run's folder, as run printed it")
    add_execution(parser)
    add_data_dir(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> None:
    folder = Path(arguments.folder)
    if not (folder / "config.yaml").is_file():
        raise DataError(f"{folder} is not the folder of a run: it has no config.yaml")

    from heterofl_ray.progress import Shown, Silent
    from heterofl_ray.runner import resume

    result = resume(
        folder,
        overrides=execution_overrides(arguments),
        data_dir=arguments.data_dir,
        progress=Silent() if arguments.quiet else Shown(),
    )
    show_result(result.summary, arguments.json)
