"""Generated data: of the size its name says, the same each time, with something to learn."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from heterofl_ray.data.catalog import SOURCES, size_of
from heterofl_ray.data.sources import load
from heterofl_ray.data.store import open_dataset


def test_sizes_and_stored_names(root: Path) -> None:
    dataset = load("synthetic-images:50", root)
    assert (dataset.info.name, dataset.info.train, dataset.info.test) == (
        "synthetic-images-50",
        50,
        10,
    )
    assert torch.equal(open_dataset(root, "synthetic-images-50").train.images, dataset.train.images)
    text = load("synthetic-text:1001", root)
    assert (text.info.train, text.info.test, text.info.name) == (1001, 200, "synthetic-text-1001")


def test_the_default_size() -> None:
    assert size_of("synthetic-images") == SOURCES["synthetic-images"].default_size == 10_000
    assert size_of("synthetic-text:70") == 70


@pytest.mark.parametrize("name", ["synthetic-images:200", "synthetic-text:5000"])
def test_the_same_bytes_each_time(name: str, tmp_path: Path) -> None:
    first, second = (load(name, tmp_path / place) for place in ("one", "two"))
    assert first.folder.name == second.folder.name


def test_images_can_be_told_apart_but_not_trivially(root: Path) -> None:
    dataset = load("synthetic-images:1000", root)
    train, test = (part.images.double().flatten(1) for part in (dataset.train, dataset.test))
    labels = dataset.train.labels
    assert labels.bincount().tolist() == [100] * 10
    means = torch.stack([train[labels == number].mean(0) for number in range(10)])
    nearest = torch.cdist(test, means).argmin(1)
    assert (nearest == dataset.test.labels).double().mean() > 0.95
    # One pixel says little: the noise is as strong as the pattern.
    one = (test[:, :1] - means[:, 0]).abs().argmin(1)
    assert (one == dataset.test.labels).double().mean() < 0.5
    assert dataset.info.mean == (round(float(train.mean()) / 255, 4),)


def test_words_follow_from_the_one_before(root: Path) -> None:
    dataset = load("synthetic-text:20000", root)
    tokens = dataset.train.tokens.numpy()
    assert tokens.min() >= 1
    assert tokens.max() < dataset.info.vocabulary == len(dataset.vocabulary()) == 2001
    pairs, counts = np.unique(np.stack([tokens[:-1], tokens[1:]]), axis=1, return_counts=True)
    usual = {}
    for (word, follower), count in zip(pairs.T, counts, strict=True):
        if count > usual.get(word, (0, 0))[0]:
            usual[word] = (count, follower)
    held = dataset.test.tokens.numpy()
    told = np.mean([usual.get(a, (0, 0))[1] == b for a, b in pairwise(held)])
    assert 0.7 < told < 0.85
