"""``heterofl-ray data``: data sets, listed, described, downloaded, imported and dealt out."""

from __future__ import annotations

import argparse
from types import ModuleType

from heterofl_ray.commands import data_fetch, data_import, data_info, data_list, data_partition

NAME = "data"
ABOUT = "list, describe, download and import data sets, or deal one to clients"
ACTIONS: tuple[ModuleType, ...] = (data_list, data_info, data_fetch, data_import, data_partition)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    subparsers = parser.add_subparsers(metavar="ACTION", required=True)
    for action in ACTIONS:
        subparser = subparsers.add_parser(
            action.NAME, help=action.ABOUT, description=action.ABOUT, allow_abbrev=False
        )
        action.add_arguments(subparser)
        subparser.set_defaults(action=action.execute)


def execute(arguments: argparse.Namespace) -> None:
    arguments.action(arguments)
