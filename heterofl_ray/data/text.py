"""Text as rows of tokens: dealt to clients, read in windows, with positions hidden at random."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.feature_skew import refuse_skew
from heterofl_ray.data.images import Batch
from heterofl_ray.data.partitions import files as partition_files
from heterofl_ray.data.partitions.dealing import by_number
from heterofl_ray.data.partitions.partition import check_enough
from heterofl_ray.data.store import Dataset, view
from heterofl_ray.errors import ConfigError
from heterofl_ray.randomness import Streams


class TextClients:
    """A token stream cut into equal rows that are dealt to clients."""

    task = "text"

    def __init__(self, dataset: Dataset, config: ExperimentConfig, streams: Streams) -> None:
        _check(config)
        self.dataset = dataset
        self.settings = config.text
        self.streams = streams
        rows = config.text.rows
        length = dataset.info.train // rows
        if length < 1:
            raise ConfigError.of("text.rows", rows, f"{dataset.info.train} training tokens")
        check_enough(rows, config.clients, "rows (text.rows)")
        self.rows = dataset.train.tokens[: rows * length].view(rows, length)
        self.train = partition_files.shared(
            partition_files.place(dataset, config, f"rows-{rows}"),
            config.clients,
            lambda: by_number(rows, config, streams),
        )

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.settings.window,)

    @property
    def outputs(self) -> int:
        return self.dataset.info.outputs

    @property
    def test_size(self) -> int:
        return len(self.dataset.test.tokens)

    @property
    def windows(self) -> int:
        """Steps of one pass: all of a client's rows are read at once, window by window."""
        return -(-self.rows.shape[1] // self.settings.window)

    @cached_property
    def rows_each(self) -> int | None:
        """How many rows every client has; None: some have more than others."""
        counts = np.unique(self.train.sizes())
        return int(counts[0]) if len(counts) == 1 else None

    def examples(self, client: int) -> int:
        """Tokens a client trains on in one pass."""
        return len(self.train[client]) * self.rows.shape[1]

    def labels(self, client: int) -> Tensor:
        """The words in a client's rows, ascending."""
        held: Tensor = self._rows_of(client).unique()
        return held

    def training_batches(
        self, client: int, size: int, random: torch.Generator, device: torch.device
    ) -> Iterator[Batch]:
        """One pass: a step is one window over all of the client's rows. ``size`` is for images."""
        for tokens in self._rows_of(client).split(self.settings.window, dim=1):
            yield self._masked(tokens, torch.rand(tokens.shape, generator=random), device)

    def test_batches(
        self, start: int, stop: int, size: int, device: torch.device
    ) -> Iterator[Batch]:
        """Windows over test tokens ``start`` to ``stop``; the same positions are hidden each time.

        ``start`` must be a multiple of the window. ``size`` counts tokens.
        """
        window = self.settings.window
        tokens = self.dataset.test.tokens[start:stop].long()
        draws = self._test_draws[start:stop]
        whole = len(tokens) // window * window
        rows, row_draws = tokens[:whole].view(-1, window), draws[:whole].view(-1, window)
        count = max(1, size // window)
        for part, draw in zip(rows.split(count), row_draws.split(count), strict=True):
            if len(part):
                yield self._masked(part, draw, device)
        if whole < len(tokens):
            yield self._masked(tokens[None, whole:], draws[None, whole:], device)

    @cached_property
    def _test_draws(self) -> Tensor:
        return torch.rand(self.test_size, generator=self.streams.torch("test-mask"))

    def _rows_of(self, client: int) -> Tensor:
        return self.rows.index_select(0, view(self.train[client])).long()

    def _masked(self, tokens: Tensor, draws: Tensor, device: torch.device) -> Batch:
        """Inputs with positions replaced by the mask token, which follows the last word."""
        tokens = tokens.contiguous()
        hidden = draws < self.settings.mask_rate
        inputs = tokens.masked_fill(hidden, self.outputs)
        return inputs.to(device), tokens.to(device)


def _check(config: ExperimentConfig) -> None:
    if config.partition_kind[0] not in ("iid", "power-law"):
        raise ConfigError.of(
            "partition", config.partition, "text is dealt in rows: iid or power-law:EXPONENT"
        )
    refuse_skew(config.feature_skew, "text has no images")
