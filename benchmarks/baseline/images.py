"""Image jobs: PIL and torchvision one image at a time, statistics in batches of ten, tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset

from benchmarks.baseline.slicing import Parameters, Update, combine
from benchmarks.baseline.training import train_client
from heterofl_ray.data.intake import vision

BATCH, TEST_BATCH = 10, 50
Change = Callable[[Any], Any]


class Pictures(Dataset[tuple[Tensor, int]]):
    """Images as torchvision's data sets give them: by way of PIL, changed one by one."""

    def __init__(self, pixels: Tensor, labels: Tensor, change: Change) -> None:
        shown = pixels[:, 0] if pixels.shape[1] == 1 else pixels.permute(0, 2, 3, 1)
        self._pixels = np.ascontiguousarray(shown.numpy())
        self._labels = labels.tolist()
        self._change = change

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        from PIL import Image

        return self._change(Image.fromarray(self._pixels[index])), self._labels[index]


def changes(mean: Sequence[float], std: Sequence[float], *before: Change) -> Change:
    """To a normalised tensor, after what is done to the picture ``before``."""
    vision.datasets()  # imports torchvision with its warnings quiet
    from torchvision import transforms

    tail = [transforms.ToTensor(), transforms.Normalize(mean, std)]
    composed: Change = transforms.Compose([*before, *tail])
    return composed


def augmentation() -> list[Change]:
    """CIFAR's: drawn anew for each picture."""
    vision.datasets()
    from torchvision import transforms

    return [transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip()]


@dataclass
class ImageJob:
    """HeteroFL on images. ``train`` is augmented, for the norms' statistics as well."""

    make: Callable[[float, float, bool], nn.Module]
    """A model of a rate, with the Scaler's rate and whether its norms gather statistics."""
    whole: Parameters
    global_rate: float
    train: Pictures
    test: Pictures
    parts: Sequence[Sequence[int]]
    """Each client's training examples."""
    test_parts: Sequence[Sequence[int]]
    epochs: int
    lr: float

    def loader(self, client: int) -> DataLoader[tuple[Tensor, int]]:
        return DataLoader(Subset(self.train, self.parts[client]), BATCH, shuffle=True)

    def client(
        self,
        client: int,
        rate: float,
        steps: int | None = None,
        orders: Sequence[Sequence[int]] | None = None,
    ) -> Update:
        """``orders`` are the examples of each epoch in their order; None: drawn."""
        model = self.make(rate, rate / self.global_rate, False)
        batches: Iterator[Any]
        if orders is None:
            loader = self.loader(client)
            batches = chain.from_iterable(loader for _ in range(self.epochs))
        else:
            loaders = (DataLoader(self.train, BATCH, sampler=order) for order in orders)
            batches = chain.from_iterable(loaders)
        return train_client(self.whole, model, batches, self.lr, steps=steps)

    def combine(self, updates: Sequence[Update]) -> None:
        combine(self.whole, updates, {})

    @torch.no_grad()
    def calibrated(
        self, batches: int | None = None, order: Sequence[int] | None = None
    ) -> nn.Module:
        """The global model with statistics from a pass over the training set, or part of one."""
        model = self.make(self.global_rate, 1.0, True)
        for name, tensor in self.whole.items():
            model.get_parameter(name).copy_(tensor)
        model.train()
        shuffle = True if order is None else None
        loader = DataLoader(self.train, BATCH, shuffle=shuffle, sampler=order)
        for images, _ in islice(loader, batches):
            model(images)
        return model.eval()

    def test_local(self, model: nn.Module, clients: Sequence[int] | None = None) -> float:
        """Accuracy over every client's own test examples, each in a loader of its own."""
        right = total = 0
        for client in range(len(self.test_parts)) if clients is None else clients:
            found = self._right(model, Subset(self.test, self.test_parts[client]), None)
            right, total = right + found[0], total + found[1]
        return 100 * right / total

    def test_global(self, model: nn.Module, batches: int | None = None) -> float:
        right, total = self._right(model, self.test, batches)
        return 100 * right / total

    @torch.no_grad()
    def _right(
        self, model: nn.Module, data: Dataset[tuple[Tensor, int]], batches: int | None
    ) -> tuple[int, int]:
        right = total = 0
        for images, labels in islice(DataLoader(data, TEST_BATCH), batches):
            right += int((model(images).argmax(1) == labels).sum())
            total += len(labels)
        return right, total
