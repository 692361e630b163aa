"""Images (or feature vectors) as whole-batch tensors: shuffled, augmented, normalised."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.augmentation import Augmentation
from heterofl_ray.data.examples import ExampleClients, batch_sizes
from heterofl_ray.data.feature_skew import FeatureSkew, check_skew
from heterofl_ray.data.partitions.partition import Partition
from heterofl_ray.data.store import Dataset, Split, view
from heterofl_ray.randomness import Streams

Batch = tuple[Tensor, Tensor]

# Training images prepared at once. Small batches come as parts of such a block, because preparing
# ten images takes hardly less time than preparing a hundred.
BLOCK = 100


class ImageClients(ExampleClients):
    """An image data set dealt to clients."""

    task = "images"

    def __init__(
        self,
        dataset: Dataset,
        config: ExperimentConfig,
        streams: Streams,
        train: Partition | None = None,
    ) -> None:
        check_skew(config.feature_skew, dataset.info.shape, config.data)
        super().__init__(dataset, config, streams, train)
        self._constants: dict[torch.device, Batch] = {}

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.dataset.info.shape

    def labels(self, client: int) -> Tensor:
        """The classes a client's training examples have, ascending."""
        held: Tensor = self.dataset.train.labels[view(self.train[client])].unique()
        return held

    def training_batches(
        self, client: int, size: int, random: torch.Generator, device: torch.device
    ) -> Iterator[Batch]:
        """One pass in random order, augmented where the data set is.

        A last batch of one joins the one before it: batch norm has no variance of one example.
        """
        mine = view(self.train[client])
        order = mine[torch.randperm(len(mine), generator=random)]
        drawn = Augmentation.draw(len(mine), random) if self.dataset.info.augment else None
        skew = self._skew(client)
        start = 0
        for block in blocks(len(mine), size):
            stop = start + sum(block)
            images, labels = pick(self.dataset.train, order[start:stop], device)
            if drawn is not None:
                images = drawn.part(start, stop).apply(images)
            images = skew.apply(self._normalised(images), random)
            yield from zip(images.split(block), labels.split(block), strict=True)
            start = stop

    def held_batches(
        self, start: int, stop: int, size: int, device: torch.device
    ) -> Iterator[Batch]:
        """The clients' training examples number ``start`` to ``stop``, one client after another.

        For statistics, and so as training sees them: norms that never met a crop's black margins
        fit the trained weights less. A batch may hold several clients' examples.
        """
        held = view(self.train.indices)[start:stop]
        for block in blocks(len(held), size):
            indices, held = held[: sum(block)], held[sum(block) :]
            images, labels = pick(self.dataset.train, indices, device)
            if self.dataset.info.augment:
                images = self.drawn_for_statistics(start, start + len(indices)).apply(images)
            whole = self._normalised(images)
            for batch, targets in zip(whole.split(block), labels.split(block), strict=True):
                yield self._skewed(batch, start), targets
                start += len(batch)

    def drawn_for_statistics(self, start: int, stop: int) -> Augmentation:
        """By the examples' places alone: the same at every test, however batches are cut."""
        hundreds = range(start // BLOCK, -(-stop // BLOCK))
        drawn = [Augmentation.draw(BLOCK, self.streams.torch("statistics", n)) for n in hundreds]
        before = hundreds[0] * BLOCK
        return Augmentation.joined(drawn).part(start - before, stop - before)

    def test_batches(
        self, start: int, stop: int, size: int, device: torch.device
    ) -> Iterator[Batch]:
        """Test examples number ``start`` to ``stop``, in order."""
        for first in range(start, stop, size):
            part = slice(first, min(first + size, stop))
            images, labels = self.dataset.test.images[part], self.dataset.test.labels[part]
            yield self._normalised(images.to(device)), labels.to(device)

    def _skewed(self, images: Tensor, start: int) -> Tensor:
        """What the clients do to their examples number ``start``, ``start`` + 1, …"""
        if not self.config.feature_skew.any:
            return images
        stop, parts = start + len(images), []
        first, last = np.searchsorted(self.train.offsets, [start, stop - 1], side="right") - 1
        for client in range(first, last + 1):
            begin = max(start, int(self.train.offsets[client]))
            end = min(stop, int(self.train.offsets[client + 1]))
            random = self.streams.torch("statistics-noise", begin, client)
            part = images[begin - start : end - start]
            parts.append(self._skew(client).apply(part, random))
        return torch.cat(parts)

    def _skew(self, client: int) -> FeatureSkew:
        return FeatureSkew.of_client(self.config.feature_skew, self.streams, client)

    def _normalised(self, images: Tensor) -> Tensor:
        """(value - mean) / std, as one multiplication and one addition."""
        if images.device not in self._constants:
            self._constants[images.device] = self._factor_and_shift(images)
        factor, shift = self._constants[images.device]
        return images.to(torch.float32, copy=True).mul_(factor).add_(shift)

    def _factor_and_shift(self, images: Tensor) -> Batch:
        info = self.dataset.info
        mean, std = (torch.tensor(v, dtype=torch.float64) for v in (info.mean, info.std))
        largest = 255 if images.dtype == torch.uint8 else 1
        shape = (-1,) + (1,) * (images.dim() - 2)
        return (
            (1 / (std * largest)).view(shape).to(images.device, torch.float32),
            (-mean / std).view(shape).to(images.device, torch.float32),
        )


def blocks(examples: int, size: int) -> Iterator[list[int]]:
    """The sizes of batches, some at a time: those that are prepared at once."""
    sizes, several = batch_sizes(examples, size), max(1, BLOCK // size)
    for first in range(0, len(sizes), several):
        yield sizes[first : first + several]


def pick(split: Split, indices: Tensor, device: torch.device) -> Batch:
    return (
        split.images.index_select(0, indices).to(device),
        split.labels.index_select(0, indices).to(device),
    )
