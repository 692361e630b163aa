"""The suite's data: MNIST, CIFAR10 and WikiText-2 where they are, else made up in their shapes.

Speed does not depend on what is in an image, so random ones of the same number and shape will do.
Text is drawn from a Zipf distribution over WikiText-2's 33,279 words. Its training stream is the
first 245,569 tokens (as many as the test stream has; 38 steps for each of 100 clients), so that a
round takes seconds.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from heterofl_ray.data.info import DataInfo
from heterofl_ray.data.places import data_dir, stored
from heterofl_ray.data.sources import load
from heterofl_ray.data.store import Columns, Dataset, Draft, write_dataset
from heterofl_ray.data.words import UNKNOWN, token_draft

TOKENS, WORDS = 245_569, 33_279
SHAPES = {"mnist": (60_000, (1, 28, 28)), "cifar10": (50_000, (3, 32, 32))}
NORMALISED = {
    "mnist": ((0.1307,), (0.3081,)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
}
TEST_IMAGES = 10_000


def provide(name: str, into: Path, share: int = 1) -> str:
    """Put the data set into the folder ``into``, one in ``share`` of it; where it came from."""
    real = name in stored(data_dir())
    if real and share == 1 and name != "wikitext2":
        for path in data_dir().glob(f"{name}[.-]*"):
            (into / path.name).symlink_to(path)
        return "real"
    draft = _text if name == "wikitext2" else _images
    source = load(name, data_dir()) if real else None
    write_dataset(into, draft(name, source, share))
    return "real" if real else "made up"


def _images(name: str, source: Dataset | None, share: int) -> Draft:
    train, shape = SHAPES[name]
    random = np.random.default_rng(0)
    splits: dict[str, Columns] = {}
    for split, count in (("train", train // share), ("test", TEST_IMAGES // share)):
        if source is not None:
            part = getattr(source, split)
            splits[split] = {
                "image": part.images[:count].numpy(),
                "label": part.labels[:count].numpy(),
            }
        else:
            splits[split] = {
                "image": random.integers(0, 256, (count, *shape), dtype=np.uint8),
                "label": np.arange(count, dtype=np.int64) % 10,
            }
    mean, std = NORMALISED[name]
    info = DataInfo(
        name=name,
        kind="images",
        train=train // share,
        test=TEST_IMAGES // share,
        shape=shape,
        classes=tuple("0123456789"),
        mean=mean,
        std=std,
        augment=name == "cifar10",
    )
    return Draft(info, splits)


def _text(name: str, source: Dataset | None, share: int) -> Draft:
    if source is not None:
        train = source.train.tokens[:TOKENS].numpy()
        test = source.test.tokens[: TOKENS // share].numpy()
        words = source.vocabulary()
    else:
        random = np.random.default_rng(0)
        frequency = 1 / np.arange(1, WORDS + 1)
        train, test = (
            random.choice(WORDS, count, p=frequency / frequency.sum()).astype(np.int32)
            for count in (TOKENS, TOKENS // share)
        )
        words = [UNKNOWN, *(f"word{number}" for number in range(1, WORDS))]
    return token_draft(name, train, test, words, origin="the speed suite's")
