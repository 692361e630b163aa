"""Scores of a model on test examples, as sums that add up over parts of the test set."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heterofl_ray.models.layers import Scaler


@dataclass(frozen=True)
class Score:
    """Of some test examples; for text an example is a position."""

    examples: int = 0
    loss: float = 0.0
    correct: int = 0

    def __add__(self, other: Score) -> Score:
        return Score(
            self.examples + other.examples, self.loss + other.loss, self.correct + other.correct
        )

    def metrics(self, task: str) -> dict[str, float]:
        """Accuracy in percent for images, perplexity for text; and the mean loss."""
        mean = self.loss / self.examples
        if task == "text":
            return {"perplexity": math.exp(min(mean, 700.0)), "loss": mean}
        return {"accuracy": 100 * self.correct / self.examples, "loss": mean}


def score(logits: Tensor, targets: Tensor) -> Score:
    flat, truth = logits.flatten(0, -2), targets.flatten()
    return Score(
        examples=truth.numel(),
        loss=float(F.cross_entropy(flat, truth, reduction="sum").double()),
        correct=int((flat.argmax(-1) == truth).sum()),
    )


@runtime_checkable
class Headed(Protocol):
    """A model whose logits are one linear layer of what comes before it."""

    head: nn.Linear

    def hidden(self, inputs: Tensor) -> Tensor: ...


# Positions and words whose logits are computed at once: few enough to stay in a core's cache.
POSITIONS, WORDS = 448, 512


def headed_score(hidden: Tensor, head: nn.Linear, targets: Tensor) -> Score:
    """The loss alone, from a vocabulary's logits that are never all there.

    The loss is log(sum of exp(z)) - z_y, and the sum can be taken tile by tile.
    """
    flat, truth = hidden.flatten(0, -2), targets.flatten()
    tiles = list(zip(head.weight.split(WORDS), head.bias.split(WORDS), strict=True))
    loss = 0.0
    for some, own in zip(flat.split(POSITIONS), truth.split(POSITIONS), strict=True):
        sums = torch.stack([F.linear(some, *tile).logsumexp(-1) for tile in tiles]).logsumexp(0)
        right = (some * head.weight[own]).sum(-1) + head.bias[own]
        loss += float((sums - right).double().sum())
    return Score(examples=truth.numel(), loss=loss)


def testing_mode(model: nn.Module) -> None:
    """Evaluation mode, with the Scaler left on: a narrow model is tested as it was trained.

    The global model's Scaler has rate 1, so for it this is plain evaluation mode.
    """
    model.eval()
    for module in model.modules():
        if isinstance(module, Scaler):
            module.train()


def held_rows(labels_of_owners: list[Tensor], classes: int) -> Tensor:
    """One row of flags per example: the labels its owner holds."""
    held = torch.zeros(len(labels_of_owners), classes, dtype=torch.bool)
    for row, labels in enumerate(labels_of_owners):
        held[row, labels] = True
    return held
