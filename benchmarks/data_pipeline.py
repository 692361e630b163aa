"""Augmented CIFAR-shaped training batches on one core: our store against torchvision's loader."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.measure import Figure, seconds
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.images import ImageClients
from heterofl_ray.data.info import DataInfo
from heterofl_ray.data.intake import vision
from heterofl_ray.data.store import Columns, Draft, write_dataset
from heterofl_ray.randomness import Streams

NAME = "data-pipeline"
ABOUT = "batches of 10 images of 3x32x32, cropped, mirrored and normalised, on one core"

Array = np.ndarray[Any, Any]

BATCH = 10
PER_CLIENT = 500
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


def measure(quick: bool) -> list[Figure]:
    images, repeats = (2_000, 3) if quick else (10_000, 5)
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (images, 3, 32, 32), dtype=np.uint8)
    labels = random.integers(0, 10, images)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            ours = _ours(Path(folder), pixels, labels)
            theirs = _theirs(pixels, labels)
            batches = images // BATCH
            assert ours() == theirs() == batches  # also warms up
            ratios = tuple(seconds(theirs) / _median_seconds(ours) for _ in range(repeats))
    finally:
        torch.set_num_threads(threads)
    return [
        Figure(
            name="data-pipeline",
            about="our batches per second / those of torchvision's dataset and a DataLoader",
            values=ratios,
            at_least=20,
        )
    ]


def _median_seconds(one_pass: Callable[[], int]) -> float:
    """Of several passes: one of ours takes a few hundredths of a second."""
    return statistics.median(seconds(one_pass) for _ in range(5))


def _ours(root: Path, pixels: Array, labels: Array) -> Callable[[], int]:
    """A pass over all clients' training batches; returns how many there were."""
    info = DataInfo(
        name="random",
        kind="images",
        train=len(labels),
        test=1,
        shape=pixels.shape[1:],
        classes=tuple("0123456789"),
        mean=MEAN,
        std=STD,
        augment=True,
    )
    parts: dict[str, Columns] = {
        "train": {"image": pixels, "label": labels},
        "test": {"image": pixels[:1], "label": labels[:1]},
    }
    streams = Streams(0)
    config = ExperimentConfig(data="random", clients=len(labels) // PER_CLIENT)
    data = ImageClients(write_dataset(root, Draft(info, parts)), config, streams)
    device = torch.device("cpu")

    def one_pass() -> int:
        count = 0
        for client in range(config.clients):
            random = streams.torch("batches", 1, client)
            for _ in data.training_batches(client, BATCH, random, device):
                count += 1
        return count

    return one_pass


def _theirs(pixels: Array, labels: Array) -> Callable[[], int]:
    """The same with what torchvision's CIFAR10 does for an image, in a DataLoader."""
    datasets = vision.datasets()
    from PIL import Image
    from torchvision import transforms

    class Pictures(datasets.VisionDataset):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__(
                root="",
                transform=transforms.Compose(
                    [
                        transforms.RandomCrop(32, padding=4),
                        transforms.RandomHorizontalFlip(),
                        transforms.ToTensor(),
                        transforms.Normalize(MEAN, STD),
                    ]
                ),
            )
            self.data = np.ascontiguousarray(pixels.transpose(0, 2, 3, 1))
            self.targets = labels.tolist()

        def __len__(self) -> int:
            return len(self.data)

        def __getitem__(self, index: int) -> tuple[Any, int]:
            return self.transform(Image.fromarray(self.data[index])), self.targets[index]

    loader: Iterable[object] = torch.utils.data.DataLoader(
        Pictures(), batch_size=BATCH, shuffle=True, num_workers=0
    )

    def one_pass() -> int:
        return sum(1 for _ in loader)

    return one_pass
