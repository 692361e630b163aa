"""``heterofl-ray data partition``: how a data set is dealt to clients, in figures and a picture."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from heterofl_ray.commands.base import add_data_dir, add_json, print_json, print_table
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data import catalog
from heterofl_ray.data.places import data_dir, stored
from heterofl_ray.errors import ConfigError

NAME = "partition"
ABOUT = "how a data set is dealt to clients, in figures and as a picture"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a data set")
    parser.add_argument(
        "--partition",
        default="iid",
        help="iid, classes:K, dirichlet:ALPHA, power-law:EXPONENT or natural (%(default)s)",
    )
    parser.add_argument("--clients", default="100", help="population (%(default)s)")
    parser.add_argument("--seed", default="0", help="of the random streams (%(default)s)")
    parser.add_argument(
        "--picture",
        nargs="?",
        const="",
        metavar="FILE.png",
        help="draw classes by clients; without a file: partition-NAME.png",
    )
    add_data_dir(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> None:
    config = ExperimentConfig(data=arguments.name, partition=arguments.partition).override(
        [f"clients={arguments.clients}", f"seed={arguments.seed}"]
    )
    picture = _picture_path(arguments.picture, arguments.name)
    root = data_dir(arguments.data_dir)
    if catalog.find(config.data) is None and config.data not in stored(root):
        raise ConfigError.unknown("data", config.data, sorted({*catalog.SOURCES, *stored(root)}))
    result = collect(config, root, picture)
    if arguments.json:
        print_json(result)
    else:
        _show(result)


def collect(config: ExperimentConfig, root: Path, picture: Path | None) -> dict[str, Any]:
    """The JSON contract of the command; draws the picture where one is wanted."""
    from heterofl_ray.data.examples import ExampleClients
    from heterofl_ray.data.partitions.picture import draw
    from heterofl_ray.data.partitions.statistics import Counts, Spread, label_skew
    from heterofl_ray.data.sources import load
    from heterofl_ray.randomness import Streams

    dataset = load(config.data, root)
    if dataset.info.kind == "text":
        raise ConfigError.of("data", config.data, "is text, dealt in rows; name a set of images")
    data = ExampleClients(dataset, config, Streams(config.seed))
    train, test = data.train.sizes(), data.test.sizes()
    counts = Counts.of(data.train, dataset.train.labels.numpy(), dataset.info.groups)
    if picture is not None:
        title = f"{config.data}, {config.partition}"
        draw(picture, title, counts, train, dataset.info.group_names)
    return {
        "name": config.data,
        "partition": config.partition,
        "clients": config.clients,
        "train": {"examples": int(train.sum()), **Spread.of(train).to_dict()},
        "test": {"examples": int(test.sum()), **Spread.of(test).to_dict()},
        "classes_per_client": Spread.of(counts.classes_per_client(config.clients)).to_dict(),
        "skew": label_skew(counts, train),
        "picture": None if picture is None else str(picture),
    }


def _picture_path(text: str | None, name: str) -> Path | None:
    if text is None:
        return None
    path = Path(text or f"partition-{name.replace(':', '-')}.png")
    if path.suffix.lower() != ".png":
        raise ConfigError.of("--picture", text, "the file's name must end in .png")
    return path


def _show(result: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(
        "for each client",
        title=f"{result['name']}, {result['partition']}, {result['clients']:,} clients",
    )
    for heading in ("least", "median", "most"):
        table.add_column(heading, justify="right")
    for heading, key in (
        ("training examples", "train"),
        ("test examples", "test"),
        ("classes", "classes_per_client"),
    ):
        table.add_row(heading, *(f"{result[key][part]:g}" for part in ("min", "median", "max")))
    print_table(table)
    print(f"label skew {result['skew']:.3f} (0: all clients alike, towards 1: nothing in common)")
    if result["picture"]:
        print(f"picture in {result['picture']}")
