"""Batches of images: normalised by hand, augmented as image by image, skewed by client."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.augmentation import PADDING, Augmentation
from heterofl_ray.data.feature_skew import FeatureSkew, rotate
from heterofl_ray.data.images import ImageClients, batch_sizes
from heterofl_ray.data.info import DataInfo
from heterofl_ray.data.store import Dataset, Draft, write_dataset
from heterofl_ray.errors import ConfigError
from heterofl_ray.randomness import Streams
from heterofl_ray.setting_groups import FeatureSkewConfig

CPU = torch.device("cpu")


def images(root: Path, train: int = 40, *, augment: bool = False) -> Dataset:
    random = np.random.default_rng(0)
    info = DataInfo(
        name="made",
        kind="images",
        train=train,
        test=7,
        shape=(2, 6, 5),
        classes=("x", "y", "z"),
        mean=(0.5, 0.25),
        std=(0.5, 0.125),
        augment=augment,
    )

    def part(count: int) -> dict[str, np.ndarray]:  # type: ignore[type-arg]
        pixels = random.integers(0, 256, (count, 2, 6, 5), dtype=np.uint8)
        return {"image": pixels, "label": np.arange(count) % 3}

    return write_dataset(root, Draft(info, {"train": part(train), "test": part(7)}))


def clients(data: Dataset, *changes: str) -> ImageClients:
    config = ExperimentConfig(data="made", clients=3).override(changes)
    return ImageClients(data, config, Streams(config.seed))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def plain(data: ImageClients, client: int, size: int = 500) -> Tensor:
    """One client's examples as the statistics see them."""
    start, stop = data.train.offsets[client : client + 2].tolist()
    return torch.cat([batch for batch, _ in data.held_batches(start, stop, size, CPU)])


def one_by_one(batch: Tensor, drawn: Augmentation) -> Tensor:
    """Augmentation as anybody would first write it."""
    done = []
    for place, image in enumerate(batch):
        channels, height, width = image.shape
        padded = torch.zeros(channels, height + 2 * PADDING, width + 2 * PADDING, dtype=batch.dtype)
        padded[:, PADDING : PADDING + height, PADDING : PADDING + width] = image
        top, left = int(drawn.top[place]), int(drawn.left[place])
        crop = padded[:, top : top + height, left : left + width]
        done.append(crop.flip(2) if drawn.mirrored[place] else crop)
    return torch.stack(done)


@pytest.mark.parametrize("shape", [(30, 3, 32, 32), (7, 1, 6, 5), (1, 2, 3, 9)])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_augmentation_is_that_of_image_by_image(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    batch = torch.randint(0, 256, shape, generator=generator()).to(dtype)
    drawn = Augmentation.draw(len(batch), generator(1))
    assert torch.equal(drawn.apply(batch), one_by_one(batch, drawn))


def test_augmentation_draws_every_place_and_mirrors_half() -> None:
    drawn = Augmentation.draw(5000, generator())
    for place in (drawn.top, drawn.left):
        assert sorted(set(place.tolist())) == list(range(9))
    assert 0.45 < drawn.mirrored.float().mean() < 0.55


def test_normalisation_by_hand(tmp_path: Path) -> None:
    data = images(tmp_path)
    batch, labels = next(clients(data).test_batches(0, 7, 10, CPU))
    pixels = data.test.images
    assert labels.tolist() == [0, 1, 2, 0, 1, 2, 0]
    for place in ((0, 0, 0, 0), (3, 0, 5, 4), (6, 1, 2, 2)):
        mean, std = ((0.5, 0.5), (0.25, 0.125))[place[1]]
        expected = (int(pixels[place]) / 255 - mean) / std
        assert float(batch[place]) == pytest.approx(expected, abs=1e-6)


def test_features_are_normalised_without_pixels_range_and_left_as_they_were(tmp_path: Path) -> None:
    info = DataInfo(
        name="features",
        kind="images",
        train=4,
        test=4,
        shape=(2,),
        dtype="float32",
        classes=("x", "y"),
        mean=(1.0, 10.0),
        std=(2.0, 5.0),
    )
    values = np.array([[1, 10], [3, 15], [5, 0], [-1, 20]], np.float32)
    part = {"image": values, "label": np.array([0, 1, 0, 1])}
    data = write_dataset(tmp_path, Draft(info, {"train": part, "test": part}))
    for _ in range(2):
        batch, _ = next(clients(data).test_batches(0, 4, 4, CPU))
        assert batch.tolist() == [[0, 0], [1, 1], [2, -2], [-1, 2]]


@pytest.mark.parametrize(
    ("examples", "size", "sizes"),
    [
        (20, 10, [10, 10]),
        (21, 10, [10, 11]),
        (22, 10, [10, 10, 2]),
        (11, 10, [11]),
        (1, 10, [1]),
        (3, 1, [1, 1, 1]),  # as asked for
    ],
)
def test_a_last_batch_of_one_joins_the_one_before(
    examples: int, size: int, sizes: list[int], tmp_path: Path
) -> None:
    assert batch_sizes(examples, size) == sizes
    data = clients(images(tmp_path, examples), "clients=1")
    for batches in (
        data.training_batches(0, size, generator(), CPU),
        data.held_batches(0, examples, size, CPU),
    ):
        assert [len(labels) for _, labels in batches] == sizes


@pytest.mark.parametrize("augment", [False, True])
@pytest.mark.parametrize("size", [7, 10, 64, 300])
def test_a_pass_reads_each_example_once_in_drawn_order(
    size: int, augment: bool, tmp_path: Path
) -> None:
    data = clients(images(tmp_path, 250, augment=augment), "clients=1")
    batches = list(data.training_batches(0, size, generator(3), CPU))
    random = generator(3)
    order = torch.from_numpy(data.train[0].copy())[torch.randperm(250, generator=random)]
    pixels = data.dataset.train.images[order]
    if augment:
        pixels = one_by_one(pixels, Augmentation.draw(250, random))
    mean, std = (torch.tensor(v).view(2, 1, 1) for v in ((0.5, 0.25), (0.5, 0.125)))
    expected = (pixels / 255 - mean) / std
    assert torch.equal(torch.cat([labels for _, labels in batches]), order % 3)
    torch.testing.assert_close(torch.cat([batch for batch, _ in batches]), expected)


def test_statistics_see_examples_as_training_does(tmp_path: Path) -> None:
    """Augmented, by their places alone: at every test, and however they are cut into batches."""
    data = clients(images(tmp_path, 250, augment=True))
    pixels = data.dataset.train.images[torch.from_numpy(data.train.indices.copy())]
    drawn = data.drawn_for_statistics(0, 250)
    mean, std = (torch.tensor(v).view(2, 1, 1) for v in ((0.5, 0.25), (0.5, 0.125)))
    expected = (one_by_one(pixels, drawn) / 255 - mean) / std
    for size in (7, 10, 64, 300):
        for cuts in ([0, 250], [0, 70, 140, 250], [0, 190, 250]):
            batches = [
                batch
                for start, stop in pairwise(cuts)
                for batch, _ in data.held_batches(start, stop, size, CPU)
            ]
            torch.testing.assert_close(torch.cat(batches), expected)
    assert len(drawn.top.unique()) == 2 * PADDING + 1
    assert 0.4 < float(drawn.mirrored.float().mean()) < 0.6
    assert not torch.equal(drawn.top[:100], drawn.top[100:200])
    other = clients(images(tmp_path, 250, augment=True), "seed=1").drawn_for_statistics(0, 250)
    assert not torch.equal(other.top, drawn.top)


def test_labels_and_owners_match_the_partition(tmp_path: Path) -> None:
    data = clients(images(tmp_path), "partition=classes:1")
    owners = data.test_owners(0, 7)
    for client in range(3):
        held = data.labels(client)
        assert len(held) == 1
        assert data.examples(client) == len(data.train[client])
        assert set(data.dataset.test.labels[owners == client].tolist()) <= set(held.tolist())


def test_no_feature_skew_changes_nothing() -> None:
    batch = torch.rand(3, 2, 6, 5)
    skew = FeatureSkew.of_client(FeatureSkewConfig(), Streams(0), 5)
    assert skew == FeatureSkew(0, 0)
    assert skew.apply(batch, generator()) is batch


def test_feature_skew_is_keyed_by_client_and_within_its_limits() -> None:
    settings = FeatureSkewConfig(rotation=30, noise=0.5)
    skews = [FeatureSkew.of_client(settings, Streams(0), client) for client in range(200)]
    assert skews[7] == FeatureSkew.of_client(settings, Streams(0), 7)
    assert skews[7] != FeatureSkew.of_client(settings, Streams(1), 7)
    angles, noises = [skew.angle for skew in skews], [skew.noise for skew in skews]
    assert -30 <= min(angles) < -25 < 25 < max(angles) <= 30
    assert 0 <= min(noises) < 0.05 < 0.45 < max(noises) <= 0.5


def test_rotation_by_quarters_moves_pixels() -> None:
    square = torch.arange(9.0).view(1, 1, 3, 3)
    torch.testing.assert_close(rotate(square, 90), square.rot90(1, (2, 3)))
    torch.testing.assert_close(rotate(square, 180), square.rot90(2, (2, 3)))
    oblong = torch.arange(12.0).view(1, 1, 3, 4)
    torch.testing.assert_close(rotate(oblong, 180), oblong.flip((2, 3)))


def test_feature_skew_reaches_training_and_statistics_but_no_test(tmp_path: Path) -> None:
    data = images(tmp_path)
    straight = clients(data)
    turned = clients(data, "feature_skew.rotation=90")
    noisy = clients(data, "feature_skew.noise=0.5")
    for client in range(3):
        angle = turned._skew(client).angle
        torch.testing.assert_close(plain(turned, client), rotate(plain(straight, client), angle))
        off = plain(noisy, client) - plain(straight, client)
        assert float(off.std()) == pytest.approx(noisy._skew(client).noise, rel=0.1)
        assert torch.equal(plain(noisy, client), plain(noisy, client))  # statistics are repeatable
        first, _ = next(turned.training_batches(client, 50, generator(), CPU))
        other, _ = next(straight.training_batches(client, 50, generator(), CPU))
        torch.testing.assert_close(first, rotate(other, angle))
    together = torch.cat([batch for batch, _ in turned.held_batches(0, 40, 15, CPU)])
    torch.testing.assert_close(together, torch.cat([plain(turned, client) for client in range(3)]))
    for skewed in (turned, noisy):
        ours, theirs = (next(d.test_batches(0, 7, 7, CPU))[0] for d in (skewed, straight))
        assert torch.equal(ours, theirs)


def test_features_cannot_be_turned(tmp_path: Path) -> None:
    info = DataInfo(name="f", kind="images", train=2, test=2, shape=(2,), classes=("x",))
    part = {"image": np.zeros((2, 2), np.uint8), "label": np.zeros(2, np.int64)}
    data = write_dataset(tmp_path, Draft(info, {"train": part, "test": part}))
    with pytest.raises(ConfigError, match=r"feature_skew\.rotation=5.* must be 0"):
        clients(data, "clients=1", "feature_skew.rotation=5")
