"""Scores of a model on test examples, as sums that add up over parts of the test set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heterofl_ray.clients import sequence_scoring as sequences
from heterofl_ray.data.info import DataInfo
from heterofl_ray.data.sequence_draft import IGNORED
from heterofl_ray.models.layers import Scaler


@dataclass(frozen=True)
class Score:
    """Of some test examples; for text an example is a position, with tags a word."""

    examples: int = 0
    loss: float = 0.0
    correct: int = 0
    sums: tuple[float, ...] = ()
    """Of sequences: what their scores are worked out from."""

    def __add__(self, other: Score) -> Score:
        both = zip_longest(self.sums, other.sums, fillvalue=0.0)
        return Score(
            self.examples + other.examples,
            self.loss + other.loss,
            self.correct + other.correct,
            tuple(mine + theirs for mine, theirs in both),
        )

    def metrics(self, info: DataInfo) -> dict[str, float]:
        """Accuracy in percent for images, perplexity for text, by target for sequences; the loss.

        The one that models are compared by comes first.
        """
        mean = self.loss / self.examples
        if info.kind == "text":
            return {"perplexity": math.exp(min(mean, 700.0)), "loss": mean}
        accuracy = 100 * self.correct / self.examples
        if info.kind == "sequences":
            return {**sequences.sequence_metrics(info, accuracy, self.sums), "loss": mean}
        return {"accuracy": accuracy, "loss": mean}


def score(logits: Tensor, targets: Tensor) -> Score:
    flat, truth = logits.flatten(0, -2), targets.flatten()
    return Score(
        examples=truth.numel(),
        loss=float(F.cross_entropy(flat, truth, reduction="sum").double()),
        correct=int((flat.argmax(-1) == truth).sum()),
    )


def score_sequences(outputs: Tensor, targets: Tensor, info: DataInfo) -> Score:
    """What every target of a sequence needs."""
    loss = sequences.sequence_loss(outputs, targets, info.target)
    if info.target == "number":
        return Score(len(targets), loss, 0, sequences.number_sums(outputs, targets))
    asked = targets != IGNORED
    return Score(
        examples=int(asked.sum()),
        loss=loss,
        correct=int((outputs.argmax(-1) == targets)[asked].sum()),
        sums=(
            sequences.tag_sums(outputs, targets, info.classes)
            if info.target == "tags"
            else sequences.class_sums(outputs, targets)
        ),
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
    bias = head.bias.unsqueeze(1)
    tiles = torch.cat([head.weight, bias, torch.ones_like(bias)], 1).split(WORDS)
    loss = 0.0
    for some, own in zip(flat.split(POSITIONS), truth.split(POSITIONS), strict=True):
        sums = _log_sums(some, tiles)
        if not sums.isfinite().all():
            sums = _log_sums_of_any(some, head)
        right = (some * head.weight[own]).sum(-1) + head.bias[own]
        loss += float((sums - right).double().sum())
    return Score(examples=truth.numel(), loss=loss)


def _log_sums(some: Tensor, tiles: Sequence[Tensor]) -> Tensor:
    """log(sum of exp(z)) for each position, where no z is far above those of the first tile.

    Powers of two take half the time of powers of e. What is subtracted so that they stay small,
    the largest z of the first tile, comes out of the product itself: a word's row ends with its
    bias and a one, a position's with what these are multiplied by.
    """
    scaled = torch.cat([some, torch.ones_like(some[:, :1])], 1) / math.log(2)
    largest = (scaled @ tiles[0][:, :-1].T).amax(1, keepdim=True)
    scaled = torch.cat([scaled, -largest], 1)
    powers = some.new_empty(len(some), WORDS)
    total = torch.zeros_like(some[:, 0])
    for tile in tiles:
        if len(tile) < WORDS:
            powers = some.new_empty(len(some), len(tile))
        total += torch.mm(scaled, tile.T, out=powers).exp2_().sum(1)
    return (total.log2() + largest.squeeze(1)) * math.log(2)


def _log_sums_of_any(some: Tensor, head: nn.Linear) -> Tensor:
    """The same for logits of any size."""
    tiles = zip(head.weight.split(WORDS), head.bias.split(WORDS), strict=True)
    return torch.stack([F.linear(some, *tile).logsumexp(-1) for tile in tiles]).logsumexp(0)


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
