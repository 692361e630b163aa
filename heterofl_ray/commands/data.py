"""``heterofl-ray data``: data sets, listed, described, downloaded, imported and dealt out."""

from __future__ import annotations

import argparse

from heterofl_ray.commands import data_fetch, data_import, data_info, data_list, data_partition
from heterofl_ray.commands.base import Command, add_commands

NAME = "data"
ABOUT = "list, describe, download and import data sets, or deal one to clients"
ACTIONS: tuple[Command, ...] = (data_list, data_info, data_fetch, data_import, data_partition)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_commands(parser, "ACTION", ACTIONS, "action")


def execute(arguments: argparse.Namespace) -> None:
    arguments.action(arguments)
