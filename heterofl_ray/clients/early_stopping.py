"""Training that ends when the model no longer gets better, whatever trainer does the steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from torch import Tensor, nn

from heterofl_ray.clients.trainers.base import Batch
from heterofl_ray.models.layers import parameters_of


@dataclass
class EarlyStopping:
    """The batches of at most ``epochs`` passes, with a look at the model after each.

    A trainer asks for the next batch when it has done the step before, so between two passes the
    model is as the first of them left it.
    """

    model: nn.Module
    one_pass: Callable[[], Iterable[Batch]]
    loss: Callable[[], float]
    """Of the model as it is, on examples that are held out."""
    epochs: int
    patience: int
    """Passes without a better loss after which it ends."""
    best: dict[str, Tensor] = field(default_factory=dict)
    """The model's parameters after the best pass."""
    losses: list[float] = field(default_factory=list)
    """After each pass."""

    def batches(self) -> Iterator[Batch]:
        least, waited = math.inf, 0
        for _ in range(self.epochs):
            yield from self.one_pass()
            self.losses.append(self.loss())
            self.model.train()
            if self.losses[-1] < least:
                least, waited = self.losses[-1], 0
                self.best = {k: v.clone() for k, v in parameters_of(self.model).items()}
            else:
                waited += 1
            if waited >= self.patience:
                return
