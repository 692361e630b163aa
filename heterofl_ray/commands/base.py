"""What commands share: their shape, JSON output and tables."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.table import Table


class Command(Protocol):
    """A module of this package."""

    NAME: str
    ABOUT: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def execute(self, arguments: argparse.Namespace) -> int | None:
        """The exit code; None: 0."""


def add_commands(
    parser: argparse.ArgumentParser, metavar: str, commands: Iterable[Command], chosen: str
) -> None:
    """Give ``parser`` these commands; the namespace has the one that was typed as ``chosen``."""
    subparsers = parser.add_subparsers(metavar=metavar, required=True)
    for command in commands:
        subparser = subparsers.add_parser(
            command.NAME, help=command.ABOUT, description=command.ABOUT, allow_abbrev=False
        )
        command.add_arguments(subparser)
        subparser.set_defaults(**{chosen: command.execute})


def add_set(parser: argparse.ArgumentParser, example: str) -> None:
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"change a setting, such as {example}; may be repeated",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, nothing else"
    )


def add_data_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-dir", help="folder of data sets (HETEROFL_DATA_DIR)")


def print_json(values: Mapping[str, Any]) -> None:
    print(json.dumps(_finite(values), allow_nan=False), flush=True)


def _finite(value: Any) -> Any:
    """The same with null for what JSON has no number for, as a diverged run's loss."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_table(table: Table, wide: bool = False) -> None:
    """``wide``: a file or a log is taken to have room for more than 80 columns."""
    from rich.console import Console

    width = 120 if wide and not sys.stdout.isatty() else None
    Console(file=sys.stdout, highlight=False, width=width).print(table)
