"""``heterofl-ray track``: what MLflow has of a run, and sending what it has not."""

from __future__ import annotations

import argparse

from heterofl_ray.commands import track_status, track_sync
from heterofl_ray.commands.base import Command, add_commands

NAME = "track"
ABOUT = "show what MLflow has of a run, or send what a server that was away has missed"
ACTIONS: tuple[Command, ...] = (track_sync, track_status)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_commands(parser, "ACTION", ACTIONS, "action")


def execute(arguments: argparse.Namespace) -> None:
    arguments.action(arguments)
