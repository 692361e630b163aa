"""The published data sets themselves, where somebody has them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from heterofl_ray.data.intake.importing import import_data
from heterofl_ray.data.intake.readers.cifar import with_coarse
from heterofl_ray.data.intake.readers.contract import Options, Part

pytestmark = pytest.mark.realdata


@pytest.fixture
def real() -> Path:
    folder = os.environ.get("HETEROFL_REALDATA")
    if not folder:
        pytest.skip("HETEROFL_REALDATA names no folder of real data")
    return Path(folder)


def test_mnist(real: Path, root: Path) -> None:
    dataset = import_data(root, real / "mnist", "mnist", Options())
    assert (dataset.info.train, dataset.info.test) == (60_000, 10_000)
    pixels = dataset.train.images.double() / 255
    assert round(float(pixels.mean()), 4) == 0.1307
    assert round(float(pixels.std()), 4) == 0.3081
    assert dataset.train.labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]


@pytest.mark.slow
def test_cifar10_as_pictures_in_an_archive(real: Path, root: Path) -> None:
    dataset = import_data(root, real / "cifar10-jpeg.tar.xz", "cifar10", Options())
    assert (dataset.info.train, dataset.info.test) == (50_000, 10_000)
    assert dataset.train.labels.bincount().tolist() == [5_000] * 10
    assert dataset.test.labels.bincount().tolist() == [1_000] * 10
    assert dataset.info.shape == (3, 32, 32)


def test_wikitext2_has_its_published_tokens(real: Path, root: Path) -> None:
    folder = real / "wikitext-2"
    options = Options(test=folder / "valid.txt")
    info = import_data(root, folder / "test.txt", "wikitext2", options).info
    assert (info.train, info.test) == (245_569, 217_646)
    assert info.vocabulary == 14_144


def test_letters_by_writer(real: Path, root: Path) -> None:
    dataset = import_data(root, real / "letters-strokes.npz", "letters", Options())
    assert (dataset.info.clients, len(dataset.info.classes)) == (55, 62)
    assert dataset.train.clients.unique().tolist() == list(range(55))


def test_super_classes_are_the_published_ones(real: Path) -> None:
    with np.load(real / "cifar100-34classes.npz") as arrays:
        for split in ("train", "test"):
            part = Part(arrays[f"{split}_x"], arrays[f"{split}_y"])
            assert np.array_equal(with_coarse(part).coarse, arrays[f"{split}_coarse"])


def test_a_choice_of_classes_keeps_their_names(real: Path, root: Path) -> None:
    info = import_data(root, real / "cifar100-34classes.npz", "some", Options()).info
    assert (len(info.classes), len(info.coarse)) == (34, 10)
    assert {"apple", "sea", "whale"} <= set(info.classes)
