"""``heterofl-ray data list``: the data sets there are, and what each still needs."""

from __future__ import annotations

import argparse

from heterofl_ray.commands.base import add_data_dir, add_json, print_json, print_table
from heterofl_ray.data.inventory import inventory
from heterofl_ray.data.places import data_dir

NAME = "list"
ABOUT = "known and imported data sets, and where each stands"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_data_dir(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> None:
    root = data_dir(arguments.data_dir)
    rows = inventory(root)
    if arguments.json:
        print_json({"data_dir": str(root), "data": rows})
        return
    from rich.table import Table

    table = Table("data set", "task", "state", "what it is", title=str(root))
    for row in rows:
        table.add_row(row["name"], row["task"], row["state"], row["about"])
    print_table(table)
