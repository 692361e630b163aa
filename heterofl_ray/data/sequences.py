"""Sentences and tagged words as batches: two rows of numbers for each, tokens and parts."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.examples import ExampleClients, batch_sizes
from heterofl_ray.data.feature_skew import refuse_skew
from heterofl_ray.data.images import Batch
from heterofl_ray.data.sequence_draft import IGNORED
from heterofl_ray.data.store import Dataset, Split, view
from heterofl_ray.errors import ConfigError
from heterofl_ray.randomness import Streams


class SequenceClients(ExampleClients):
    """Sequences dealt to clients, each with a class, a number or a tag for every word."""

    task = "sequences"

    def __init__(self, dataset: Dataset, config: ExperimentConfig, streams: Streams) -> None:
        refuse_skew(config.feature_skew, "text has no images")
        kind = config.partition_kind[0]
        if dataset.info.target == "number" and kind in ("classes", "dirichlet"):
            raise ConfigError.of(
                "partition",
                config.partition,
                f"data={config.data} has numbers and no classes: iid or power-law:EXPONENT",
            )
        super().__init__(dataset, config, streams)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (2, *self.dataset.info.shape)

    def labels(self, client: int) -> Tensor:
        """The classes, or tags, that a client's training examples have, ascending."""
        held: Tensor = self._targets(self.dataset.train, view(self.train[client])).unique()
        return held[held != IGNORED]

    def training_batches(
        self, client: int, size: int, random: torch.Generator, device: torch.device
    ) -> Iterator[Batch]:
        """One pass in random order; a batch is as long as its longest sequence."""
        mine = view(self.train[client])
        order = mine[torch.randperm(len(mine), generator=random)]
        for indices in order.split(batch_sizes(len(mine), size)):
            inputs, targets = self._batch(self.dataset.train, indices)
            longest = int((inputs[:, 1] > 0).sum(1).max())
            if targets.dim() > 1:
                targets = targets[:, :longest]
            yield inputs[:, :, :longest].to(device), targets.to(device)

    def test_batches(
        self, start: int, stop: int, size: int, device: torch.device
    ) -> Iterator[Batch]:
        """Test examples number ``start`` to ``stop``, in order, in their full length."""
        for first in range(start, stop, size):
            indices = torch.arange(first, min(first + size, stop))
            inputs, targets = self._batch(self.dataset.test, indices)
            yield inputs.to(device), targets.to(device)

    def _batch(self, split: Split, indices: Tensor) -> Batch:
        tokens = split.tokens.index_select(0, indices).long()
        first, length = (
            split.columns[name].index_select(0, indices)[:, None] for name in ("first", "length")
        )
        places = torch.arange(tokens.shape[1])
        parts = (places < length).long() + ((places >= first) & (places < length)).long()
        return torch.stack([tokens, parts], 1), self._targets(split, indices)

    def _targets(self, split: Split, indices: Tensor) -> Tensor:
        column = {"class": "label", "number": "number", "tags": "tag"}[self.dataset.info.target]
        chosen = split.columns[column].index_select(0, indices)
        return chosen if column == "number" else chosen.long()
