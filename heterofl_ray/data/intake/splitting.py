"""Taking a test part where the data has none; the same one every time."""

from __future__ import annotations

import numpy as np

from heterofl_ray.data.intake.readers.contract import Array, Part
from heterofl_ray.errors import DataError

_EVERY = 5
_KEY = 5


def last_tenth(words: list[str]) -> tuple[list[str], list[str]]:
    """Training and test words of one text."""
    cut = len(words) - len(words) // 10
    if cut == len(words):
        raise DataError(f"{len(words)} words are too few to split; give a test file by --test")
    return words[:cut], words[cut:]


def without_every_fifth(part: Part) -> tuple[Part, Part]:
    """Training and test examples, as `every_fifth` says."""
    testing = every_fifth(part.labels, part.clients)
    return _rows(part, ~testing), _rows(part, testing)


def every_fifth(labels: Array, clients: Array | None) -> Array:
    """Which examples are for testing: every fifth of each class, as they stand.

    Data that names clients is shuffled by a fixed key first, since data sorted by client would give
    away whole clients; and a client of which nothing is left to train on keeps its examples.
    """
    order = np.arange(len(labels))
    if clients is not None:
        order = np.random.default_rng(_KEY).permutation(order)
    testing = np.zeros(len(order), dtype=bool)
    for label in np.unique(labels):
        testing[order[labels[order] == label][_EVERY - 1 :: _EVERY]] = True
    if clients is not None:
        testing &= np.isin(clients, clients[~testing])
    if not testing.any():
        raise DataError(
            f"no class has {_EVERY} examples, too few to split; give a test part by --test"
        )
    return testing


def _rows(part: Part, chosen: Array) -> Part:
    return Part(
        part.images[chosen],
        part.labels[chosen],
        None if part.clients is None else part.clients[chosen],
        None if part.coarse is None else part.coarse[chosen],
    )
