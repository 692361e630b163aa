"""``heterofl-ray data info``: what a data set holds; one that can be made is made first."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from heterofl_ray.commands.base import add_data_dir, add_json, print_json, print_table
from heterofl_ray.data import catalog
from heterofl_ray.data.info import read_info
from heterofl_ray.data.inventory import summary
from heterofl_ray.data.places import data_dir, stored, stored_name
from heterofl_ray.errors import ConfigError

NAME = "info"
ABOUT = "examples, classes or vocabulary, shape, size and origin of a data set"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="as 'data list' shows it")
    add_data_dir(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> None:
    name, root = arguments.name, data_dir(arguments.data_dir)
    there = stored(root)
    if catalog.find(name) is None and name not in there:
        raise ConfigError.unknown("data", name, sorted({*catalog.SOURCES, *there}))
    if stored_name(name) not in there:
        from heterofl_ray.data.sources import load

        load(name, root)
    info, folder = read_info(root, stored_name(name))
    show({**summary(info), "folder": str(folder)}, as_json=arguments.json)


def show(values: Mapping[str, Any], *, as_json: bool) -> None:
    """A data set's summary as JSON or as a table."""
    if as_json:
        print_json(values)
        return
    from rich.table import Table

    table = Table("", str(values["name"]))
    for key, value in values.items():
        if key in ("name", "class_names") or value in (0, []):
            continue
        text = "x".join(map(str, value)) if key == "shape" else value
        table.add_row(key.replace("_", "-"), f"{text:,}" if isinstance(text, int) else str(text))
    print_table(table)
