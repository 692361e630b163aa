"""Images (or feature vectors) as whole-batch tensors: shuffled, augmented, normalised."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data import partition
from heterofl_ray.data.partition import Partition, check_enough
from heterofl_ray.data.store import Dataset, Split, view
from heterofl_ray.randomness import Streams

Batch = tuple[Tensor, Tensor]
PADDING = 4


class ImageClients:
    """An image data set dealt to clients."""

    task = "images"

    def __init__(self, dataset: Dataset, config: ExperimentConfig, streams: Streams) -> None:
        self.dataset = dataset
        self.train, self.test = deal(dataset, config, streams)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.dataset.info.shape

    @property
    def outputs(self) -> int:
        return self.dataset.info.outputs

    @property
    def test_size(self) -> int:
        return len(self.dataset.test.labels)

    def examples(self, client: int) -> int:
        return len(self.train[client])

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
        for indices in _chunks(order, size):
            images, labels = _pick(self.dataset.train, indices, device)
            if self.dataset.info.augment:
                images = augment(images, random)
            yield self._normalised(images), labels

    def plain_batches(self, client: int, size: int, device: torch.device) -> Iterator[Batch]:
        """One pass over a client's training examples as they are, for statistics."""
        for indices in _chunks(view(self.train[client]), size):
            images, labels = _pick(self.dataset.train, indices, device)
            yield self._normalised(images), labels

    def test_batches(
        self, start: int, stop: int, size: int, device: torch.device
    ) -> Iterator[Batch]:
        """Test examples number ``start`` to ``stop``, in order."""
        for indices in torch.arange(start, stop).split(size):
            images, labels = _pick(self.dataset.test, indices, device)
            yield self._normalised(images), labels

    def test_owners(self, start: int, stop: int) -> Tensor:
        """The client to whom each of these test examples was dealt."""
        return self._owners[start:stop]

    @cached_property
    def _owners(self) -> Tensor:
        return view(self.test.owners())

    def _normalised(self, images: Tensor) -> Tensor:
        info = self.dataset.info
        shape = (1, -1) + (1,) * (images.dim() - 2)
        mean = torch.tensor(info.mean, device=images.device).view(shape)
        std = torch.tensor(info.std, device=images.device).view(shape)
        values = images.float()
        if images.dtype == torch.uint8:
            values = values.div_(255)
        return values.sub_(mean).div_(std)


def deal(
    dataset: Dataset, config: ExperimentConfig, streams: Streams
) -> tuple[Partition, Partition]:
    """Partitions of the training and the test examples, as ``partition`` says."""
    kind, argument = config.partition_kind
    train, test = dataset.train.labels.numpy(), dataset.test.labels.numpy()
    classes = dataset.info.outputs
    check_enough(len(train), config.clients, "training examples")
    match kind:
        case "classes":
            return partition.by_classes(
                train, test, classes, config.clients, int(argument or 0), streams
            )
        case "dirichlet":
            return partition.dirichlet(
                train, test, classes, config.clients, float(argument or 0), streams
            )
        case _:
            return (
                partition.iid(len(train), config.clients, streams.numpy("partition")),
                partition.iid(len(test), config.clients, streams.numpy("test-partition")),
            )


def augment(images: Tensor, random: torch.Generator) -> Tensor:
    """Pad, crop at random and mirror every second image, the whole batch at once."""
    count, _, height, width = images.shape
    top, left = (
        torch.randint(0, 2 * PADDING + 1, (2, count), generator=random).to(images.device).unbind()
    )
    mirrored = (torch.rand(count, generator=random) < 0.5).to(images.device)
    padded = F.pad(images, (PADDING,) * 4)
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)
    cropped = windows[torch.arange(count, device=images.device), :, top, left]
    return torch.where(mirrored.view(-1, 1, 1, 1), cropped.flip(3), cropped)


def _pick(split: Split, indices: Tensor, device: torch.device) -> Batch:
    return split.images[indices].to(device), split.labels[indices].to(device)


def _chunks(indices: Tensor, size: int) -> tuple[Tensor, ...]:
    chunks: tuple[Tensor, ...] = indices.split(size)
    if len(chunks) > 1 and len(chunks[-1]) == 1:
        return (*chunks[:-2], torch.cat(chunks[-2:]))
    return chunks
