"""Data made from a fixed seed, of any size: something to learn, and nothing to download."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from heterofl_ray.data.info import DataInfo
from heterofl_ray.data.intake.drafting import statistics
from heterofl_ray.data.store import Columns, Draft
from heterofl_ray.data.words import UNKNOWN, token_draft

CLASSES, SIDE, CELL = 10, 28, 4
WORDS, ROW, FOLLOWS = 2000, 200, 0.8
_SEED = 20210504
_TOGETHER = 10_000  # images made at once


def images(name: str, size: int) -> Draft:
    """Ten classes: each a coarse pattern of grey squares, under noise as strong as itself."""
    random = np.random.default_rng(_SEED)
    coarse = random.uniform(64, 192, (CLASSES, SIDE // CELL, SIDE // CELL))
    patterns = coarse.repeat(CELL, axis=1).repeat(CELL, axis=2).astype(np.float32)
    splits: dict[str, Columns] = {}
    for split, count in (("train", size), ("test", _testing(size))):
        labels = np.arange(count, dtype=np.int64) % CLASSES
        pixels = np.empty((count, 1, SIDE, SIDE), dtype=np.uint8)
        for start in range(0, count, _TOGETHER):
            part = patterns[labels[start : start + _TOGETHER]]
            noise = random.standard_normal(part.shape, dtype=np.float32)
            pixels[start : start + _TOGETHER, 0] = np.clip(part + 64 * noise, 0, 255)
        splits[split] = {"image": pixels, "label": labels}
    mean, std = statistics(splits["train"]["image"])
    info = DataInfo(
        name=name,
        kind="images",
        train=size,
        test=_testing(size),
        shape=(1, SIDE, SIDE),
        classes=tuple(str(number) for number in range(CLASSES)),
        mean=mean,
        std=std,
        origin=f"generated from seed {_SEED}",
    )
    return Draft(info, splits)


def text(name: str, size: int) -> Draft:
    """Words of which each usually follows from the one before it; frequent ones come first."""
    random = np.random.default_rng(_SEED)
    successors = random.permutation(WORDS).astype(np.int32)
    words = [UNKNOWN, *(f"word{number}" for number in range(1, WORDS + 1))]
    train, test = (_tokens(count, successors, random) for count in (size, _testing(size)))
    return token_draft(name, train, test, words, origin=f"generated from seed {_SEED}")


def _tokens(
    count: int, successors: NDArray[np.int32], random: np.random.Generator
) -> NDArray[np.int32]:
    """Rows of a Markov chain, all rows one word further at a time, laid end to end."""
    rows = -(-count // ROW)
    tokens = np.empty((rows, ROW), dtype=np.int32)
    for place in range(ROW):
        # Squaring a uniform draw favours the first words, as languages do.
        drawn = (random.random(rows) ** 2 * WORDS).astype(np.int32)
        if place:
            stays = random.random(rows) < FOLLOWS
            drawn = np.where(stays, successors[tokens[:, place - 1]], drawn)
        tokens[:, place] = drawn
    return tokens.reshape(-1)[:count] + 1  # token 0 is for unknown words


def _testing(size: int) -> int:
    return max(10, size // 5)
