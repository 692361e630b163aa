"""``heterofl-ray track``: what MLflow has of a run, and sending what it has not."""

from __future__ import annotations

import argparse
from types import ModuleType

from heterofl_ray.commands import track_status, track_sync

NAME = "track"
ABOUT = "show what MLflow has of a run, or send what a server that was away has missed"
ACTIONS: tuple[ModuleType, ...] = (track_sync, track_status)


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
