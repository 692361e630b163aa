"""``heterofl-ray bench``: the speed suite of a checkout."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

import heterofl_ray
from heterofl_ray.commands.base import add_data_dir, add_json
from heterofl_ray.errors import ConfigError

NAME = "bench"
ABOUT = "the speed suite of a checkout: ratios, their spread and their bounds"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="themes; the suite when none is named"
    )
    parser.add_argument(
        "--quick", action="store_true", help="small jobs, one repeat, nothing compiled, few bounds"
    )
    parser.add_argument(
        "--record", action="store_true", help="keep the results in benchmarks/results"
    )
    parser.add_argument(
        "--compare", action="store_true", help="exit code 1 if a ratio is worse than recorded"
    )
    add_data_dir(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    sys.path.insert(0, str(find_checkout()))
    code: int = import_module("benchmarks.suite").run(arguments)
    return code


def find_checkout() -> Path:
    """The folder that holds the suite: of this package's own checkout, or the current one."""
    places = (Path(heterofl_ray.__file__).parent.parent, Path.cwd())
    for place in places:
        if (place / "benchmarks" / "suite.py").is_file():
            return place
    raise ConfigError(
        "bench needs a checkout of heterofl-ray: there is no benchmarks/suite.py in "
        f"{' or '.join(map(str, places))}"
    )
