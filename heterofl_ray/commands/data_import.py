"""``heterofl-ray data import``: take in a user's own data."""

from __future__ import annotations

import argparse
from pathlib import Path

from heterofl_ray.commands.base import add_data_dir, add_json
from heterofl_ray.commands.data_info import show
from heterofl_ray.data.inventory import summary
from heterofl_ray.data.places import check_name, data_dir
from heterofl_ray.errors import ConfigError, DataError

NAME = "import"
ABOUT = "take in images, IDX files, text, sentences, tagged words, .npz, Parquet or CSV"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", type=Path, help="a folder, an archive or a file")
    parser.add_argument("--name", required=True, help="what to call the data set")
    parser.add_argument(
        "--test",
        metavar="PATH",
        type=Path,
        help="the test part (else PATH's own, every fifth example, or a text's last tenth)",
    )
    parser.add_argument("--label", metavar="COLUMN", help="column or array of labels")
    parser.add_argument("--client", metavar="COLUMN", help="column or array of clients' names")
    parser.add_argument("--size", metavar="HxW", help="scale all images to this, such as 32x32")
    parser.add_argument(
        "--tokenizer",
        metavar="PATH",
        type=Path,
        help="sentences, tagged words: a Hugging Face folder (else the training part's own words)",
    )
    parser.add_argument(
        "--length", help="sentences, tagged words: tokens of the longest sequence (128)"
    )
    add_data_dir(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> None:
    check_name(arguments.name)
    size = _size(arguments.size)
    length = _length(arguments.length)
    for path in (arguments.path, arguments.test, arguments.tokenizer):
        if path is not None and not path.exists():
            raise DataError(f"{path} does not exist")

    from heterofl_ray.data.intake.importing import import_data
    from heterofl_ray.data.intake.readers.contract import Options

    options = Options(
        test=arguments.test,
        label=arguments.label,
        client=arguments.client,
        size=size,
        tokenizer=arguments.tokenizer,
        length=length,
    )
    root = data_dir(arguments.data_dir)
    dataset = import_data(root, arguments.path, arguments.name, options)
    show({**summary(dataset.info), "folder": str(dataset.folder)}, as_json=arguments.json)


def _size(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    sides = text.lower().split("x")
    whole = len(sides) == 2 and all(side.isascii() and side.isdigit() for side in sides)
    if not whole or not all(len(side) < 6 and 1 <= int(side) <= 4096 for side in sides):
        raise ConfigError.of("--size", text, "HEIGHTxWIDTH from 1x1 to 4096x4096, such as 32x32")
    return int(sides[0]), int(sides[1])


def _length(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 8 <= int(text) <= 8192):
        raise ConfigError.of("--length", text, "a whole number from 8 to 8192")
    return int(text)
