"""Static batch norm's statistics, from one pass over the clients' training data.

Batches are independent of one another in training mode, so parts of the data can be queried in
parallel and their sums added. ``evaluation.calibrate`` says what the sums become:

- pooled: the mean and variance of all values that a layer saw. Batches may be of any size.
- per-batch: the plain averages of the batches' means and unbiased variances, which is what
  BatchNorm(momentum=None) gathers one by one. As the paper, with batches of ``batch_size``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from heterofl_ray.models.layers import StaticBatchNorm


@dataclass
class Moments:
    """Sums over batches of what each norm layer saw, in float64."""

    pooled: bool = False
    weight: float = 0.0
    """Examples if pooled, else batches."""
    means: dict[str, Tensor] = field(default_factory=dict)
    seconds: dict[str, Tensor] = field(default_factory=dict)
    """Second moments if pooled, else unbiased variances."""

    def add(self, other: Moments) -> None:
        self.weight += other.weight
        for mine, theirs in ((self.means, other.means), (self.seconds, other.seconds)):
            for name, tensor in theirs.items():
                mine[name] = mine[name] + tensor if name in mine else tensor

    def averages(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Each layer's mean and variance."""
        found = {}
        for name in self.means:
            mean, second = self.means[name] / self.weight, self.seconds[name] / self.weight
            found[name] = (mean, (second - mean.square()).clamp_min(0) if self.pooled else second)
        return found


def pooled(parts: Sequence[Moments]) -> Moments:
    """The sum of several parts' moments, in their order."""
    total = Moments(parts[0].pooled)
    for part in parts:
        total.add(part)
    return total


def needs_calibration(model: nn.Module) -> bool:
    return bool(_norms(model))


Contribution = Callable[[Tensor], Tensor]
"""What one batch adds to the sums: all layers' means, then all their seconds."""


@torch.no_grad()
def gather_moments(
    model: nn.Module,
    batches: Iterable[Tensor],
    pooled: bool = False,
    contribute: Contribution | None = None,
) -> Moments:
    """Run ``batches`` through the model in training mode and note what its norm layers see.

    ``contribute`` is another way to what `contribution` gives.
    """
    model.train()
    weight, total = 0, torch.zeros((), dtype=torch.float64)
    for inputs in batches:
        total = total + (contribute(inputs) if contribute else contribution(model, inputs, pooled))
        weight += len(inputs) if pooled else 1
    if not weight:
        return Moments(pooled)
    names, layers = zip(*_norms(model), strict=True)
    means, seconds = (
        half.split([len(layer.weight) for layer in layers]) for half in total.chunk(2)
    )
    return Moments(
        pooled,
        weight,
        dict(zip(names, means, strict=True)),
        dict(zip(names, seconds, strict=True)),
    )


def contribution(
    model: nn.Module,
    inputs: Tensor,
    pooled: bool,
    forward: Callable[[Tensor], object] | None = None,
) -> Tensor:
    """A batch's contribution, from one pass; ``forward`` instead of the model's own."""
    means, seconds = list[Tensor](), list[Tensor]()

    def note(seen: Tensor, mean: Tensor, variance: Tensor) -> None:
        mean, variance = mean.double(), variance.double()
        if pooled:
            means.append(len(seen) * mean)
            seconds.append(len(seen) * (variance + mean.square()))
        else:
            values = seen.numel() // seen.shape[1]
            means.append(mean)
            seconds.append(variance * (values / max(1, values - 1)))

    layers = [layer for _, layer in _norms(model)]
    for layer in layers:
        layer.observer = note
    try:
        (forward or model)(inputs)
    finally:
        for layer in layers:
            layer.observer = None
    return torch.cat([*means, *seconds])


def _norms(model: nn.Module) -> list[tuple[str, StaticBatchNorm]]:
    return [(n, layer) for n, layer in model.named_modules() if isinstance(layer, StaticBatchNorm)]


def put_statistics(model: nn.Module, moments: Moments) -> None:
    """Give the norm layers the averages they test with."""
    averages = moments.averages()
    for name, layer in _norms(model):
        mean, variance = averages[name]
        layer.mean, layer.variance = mean.to(layer.weight), variance.to(layer.weight)
