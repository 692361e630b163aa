"""``heterofl-ray settings``: every setting with its default and what it does."""

from __future__ import annotations

import argparse

from heterofl_ray.commands.base import add_json, print_json, print_table
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.settings import describe

NAME = "settings"
ABOUT = "every setting that --set, YAML and Python take"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json(parser)


def execute(arguments: argparse.Namespace) -> None:
    settings = describe(ExperimentConfig())
    if arguments.json:
        print_json(settings)
        return
    from rich.table import Table

    table = Table("setting", "default", "what it does")
    for name, entry in settings.items():
        choices = f" (one of: {', '.join(entry['choices'])})" if entry["choices"] else ""
        table.add_row(name, str(entry["default"]), entry["about"] + choices)
    print_table(table)
