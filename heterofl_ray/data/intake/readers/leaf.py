"""FEMNIST as LEAF prepares it: JSON files of writers, each with images as lists of numbers."""

from __future__ import annotations

import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from heterofl_ray.data.intake.archives import Entry, entries, reading
from heterofl_ray.data.intake.limits import LARGEST_TEXT
from heterofl_ray.data.intake.readers.contract import Labelled, Options, Part
from heterofl_ray.data.intake.showing import counted
from heterofl_ray.errors import DataError
from heterofl_ray.plain_files import NoJson, parse_json

SIDE = 28
_BEGINNING = 4096
CHARACTERS = string.digits + string.ascii_uppercase + string.ascii_lowercase


def is_leaf(name: str) -> bool:
    return name.endswith(".json")


def holds_writers(place: Path) -> bool:
    """Whether a JSON file lies where LEAF puts its parts, or begins as LEAF's do.

    Others, such as a note about images, say nothing of what the rest of a folder is.
    """
    for entry in entries(place):
        if is_leaf(entry.name):
            if {"train", "test"} & set(entry.name.split("/")[:-1]):
                return True
            with reading(f"{place}: {entry.name}"), entry.open() as stream:
                beginning = stream.read(_BEGINNING)
            if any(key in beginning for key in (b'"users"', b'"user_data"')):
                return True
    return False


def read(place: Path, options: Options) -> Labelled:
    """Files in folders 'train' and 'test'; files anywhere else are for training."""
    drawn: dict[str, list[Part]] = {"train": [], "test": []}
    for entry in counted((entry for entry in entries(place) if is_leaf(entry.name)), "files"):
        split = "test" if "test" in entry.name.split("/")[:-1] else "train"
        drawn[split] += _writers(entry)
    if not drawn["train"]:
        raise DataError(f"{place} has no JSON files for training, such as train/all_data_0.json")
    test = _joined(drawn["test"]) if drawn["test"] else None
    return Labelled(_joined(drawn["train"]), test, tuple(CHARACTERS))


def _writers(entry: Entry) -> Iterator[Part]:
    where = f"{entry.place}: {entry.name}"
    content = entry.read(LARGEST_TEXT)
    try:
        values: Any = parse_json(content, "it")
        users, data = values["users"], values["user_data"]
        for user in users:
            yield _writer(str(user), data[user], entry)
    except (NoJson, ValueError, TypeError, LookupError, OverflowError) as error:
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        raise DataError(f"{where} is not a LEAF file (users, user_data): {reason}") from None


def _writer(user: str, drawn: Any, entry: Entry) -> Part:
    pixels = np.asarray(drawn["x"], dtype=np.float32)
    labels = np.asarray(drawn["y"])
    where = f"{entry.place}: {entry.name}: writer {user[:60]}"
    if not len(labels) and not len(pixels):
        raise DataError(f"{where} has no samples; prepare the data with LEAF's '-k 1' or more")
    if pixels.shape != (len(labels), SIDE * SIDE):
        raise DataError(f"{where} has x of shape {pixels.shape} for {len(labels)} labels")
    if labels.dtype.kind not in "iu" or labels.ndim != 1:
        raise DataError(f"{where} has labels that are no whole numbers")
    if labels.min() < 0 or labels.max() >= len(CHARACTERS):
        raise DataError(f"{where} has a label outside 0 to {len(CHARACTERS) - 1}")
    if not (pixels.min() >= 0 and pixels.max() <= 1):
        raise DataError(f"{where} has grey values outside 0 to 1")
    images = np.round(pixels * 255).astype(np.uint8).reshape(-1, SIDE, SIDE)
    return Part(images, labels.astype(np.int64), np.full(len(labels), user))


def _joined(parts: list[Part]) -> Part:
    return Part(
        np.concatenate([part.images for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.clients for part in parts if part.clients is not None]),
    )
