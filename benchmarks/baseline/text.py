"""The text job: windows over a client's rows, all words' logits, a test in batches of ten rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.baseline.slicing import Parameters, Update, combine
from benchmarks.baseline.training import train_client
from benchmarks.baseline.transformer import WINDOW, Transformer

MASK_RATE, TEST_ROWS = 0.15, 10
Draw = Callable[[torch.Size], Tensor]
"""Uniform numbers of a shape; positions with one below the mask rate are hidden."""


@dataclass
class TextJob:
    vocabulary: int
    whole: Parameters
    global_rate: float
    rows: Tensor
    """The training stream, cut into equal rows."""
    parts: Sequence[Sequence[int]]
    """Each client's rows."""
    test: Tensor
    """The test stream."""
    lr: float

    def client(
        self,
        client: int,
        rate: float,
        steps: int | None = None,
        draw: Draw = torch.rand,
        model: Transformer | None = None,
    ) -> Update:
        """``draw`` decides which positions are hidden; ``model`` saves making one."""
        if model is None:
            model = Transformer(self.vocabulary, rate, rate / self.global_rate)
        rows = self.rows[list(self.parts[client])]
        windows = self.windows(rows, draw)
        return train_client(self.whole, model, windows, self.lr, rows.unique(), steps)

    def windows(self, rows: Tensor, draw: Draw) -> Iterator[tuple[Tensor, Tensor]]:
        for start in range(0, rows.shape[1], WINDOW):
            targets = rows[:, start : start + WINDOW]
            hidden = draw(targets.shape) < MASK_RATE
            yield targets.masked_fill(hidden, self.vocabulary), targets

    def combine(self, updates: Sequence[Update]) -> None:
        label_rows = {"tokens.weight": 1, "decoder2.weight": 0, "decoder2.bias": 0}
        combine(self.whole, updates, label_rows)

    @property
    def test_batches(self) -> int:
        return math.ceil(len(self.test) // TEST_ROWS / WINDOW)

    @torch.no_grad()
    def perplexity(self, batches: int | None = None, draw: Draw = torch.rand) -> float:
        """Of the global model on the test stream, or on the first batches of it."""
        model = Transformer(self.vocabulary, self.global_rate, 1.0)
        for name, tensor in self.whole.items():
            model.get_parameter(name).copy_(tensor)
        model.eval()
        rows = self.test[: len(self.test) // TEST_ROWS * TEST_ROWS].view(TEST_ROWS, -1)
        loss = positions = 0.0
        for inputs, targets in islice(self.windows(rows, draw), batches):
            logits = model(inputs).flatten(0, 1)
            loss += float(F.cross_entropy(logits, targets.flatten(), reduction="sum"))
            positions += targets.numel()
        return math.exp(loss / positions)
