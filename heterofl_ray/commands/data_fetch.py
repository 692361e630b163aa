"""``heterofl-ray data fetch``: download a known data set's files."""

from __future__ import annotations

import argparse

from heterofl_ray.commands.base import add_data_dir, add_json, print_json
from heterofl_ray.data.places import data_dir

NAME = "fetch"
ABOUT = "download the files of a known data set; they are converted when first used"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a data set that 'data list' says needs files")
    add_data_dir(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> None:
    from heterofl_ray.data.intake.fetching import fetch

    files = fetch(arguments.name, data_dir(arguments.data_dir))
    folder = files[0].parent
    if arguments.json:
        print_json(
            {
                "name": arguments.name,
                "folder": str(folder),
                "files": [path.name for path in files],
                "bytes": sum(path.stat().st_size for path in files),
            }
        )
    else:
        print(f"{', '.join(path.name for path in files)} in {folder}")
