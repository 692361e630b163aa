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
    return any(isinstance(module, StaticBatchNorm) for module in model.modules())


@torch.no_grad()
def gather_moments(model: nn.Module, batches: Iterable[Tensor], pooled: bool = False) -> Moments:
    """Run ``batches`` through the model in training mode and note what its norm layers see."""
    moments = Moments(pooled)
    layers = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, StaticBatchNorm)
    ]
    for name, layer in layers:
        layer.observer = _note(name, moments)
    model.train()
    try:
        for inputs in batches:
            model(inputs)
            moments.weight += len(inputs) if pooled else 1
    finally:
        for _, layer in layers:
            layer.observer = None
    return moments


def _note(name: str, moments: Moments) -> Callable[[Tensor, Tensor, Tensor], None]:
    def note(inputs: Tensor, mean: Tensor, variance: Tensor) -> None:
        mean, variance = mean.double(), variance.double()
        if moments.pooled:
            weight = len(inputs)
            first, second = weight * mean, weight * (variance + mean.square())
        else:
            values = inputs.numel() // inputs.shape[1]
            first, second = mean, variance * (values / max(1, values - 1))
        for sums, value in ((moments.means, first), (moments.seconds, second)):
            sums[name] = sums[name] + value if name in sums else value

    return note


def put_statistics(model: nn.Module, moments: Moments) -> None:
    """Give the norm layers the averages they test with."""
    averages = moments.averages()
    for name, module in model.named_modules():
        if isinstance(module, StaticBatchNorm):
            mean, variance = averages[name]
            module.mean, module.variance = mean.to(module.weight), variance.to(module.weight)
