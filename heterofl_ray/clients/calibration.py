"""Static batch norm's statistics: averages over batches of their means and variances.

Batches are independent of one another in training mode, so clients can be queried in parallel and
their sums added; the result is what BatchNorm(momentum=None) would have gathered one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from heterofl_ray.models.layers import StaticBatchNorm


@dataclass
class Moments:
    """Sums over batches of each norm layer's input mean and unbiased variance, in float64."""

    batches: int = 0
    means: dict[str, Tensor] = field(default_factory=dict)
    variances: dict[str, Tensor] = field(default_factory=dict)

    def add(self, other: Moments) -> None:
        self.batches += other.batches
        for mine, theirs in ((self.means, other.means), (self.variances, other.variances)):
            for name, tensor in theirs.items():
                mine[name] = mine[name] + tensor if name in mine else tensor

    def averages(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Each layer's mean and variance over all batches."""
        return {
            name: (self.means[name] / self.batches, self.variances[name] / self.batches)
            for name in self.means
        }


def pooled(parts: Sequence[Moments]) -> Moments:
    """The sum of several clients' moments, in their order."""
    total = Moments()
    for part in parts:
        total.add(part)
    return total


def needs_calibration(model: nn.Module) -> bool:
    return any(isinstance(module, StaticBatchNorm) for module in model.modules())


@torch.no_grad()
def gather_moments(model: nn.Module, batches: Iterable[Tensor]) -> Moments:
    """Run ``batches`` through the model in training mode and note what its norm layers see."""
    moments = Moments()
    hooks = [
        module.register_forward_pre_hook(_note(name, moments))
        for name, module in model.named_modules()
        if isinstance(module, StaticBatchNorm)
    ]
    model.train()
    try:
        for inputs in batches:
            model(inputs)
            moments.batches += 1
    finally:
        for hook in hooks:
            hook.remove()
    return moments


def _note(name: str, moments: Moments) -> Callable[[nn.Module, tuple[Tensor]], None]:
    def hook(module: nn.Module, inputs: tuple[Tensor]) -> None:
        axes = [axis for axis in range(inputs[0].dim()) if axis != 1]
        values = inputs[0].numel() // inputs[0].shape[1]
        variance, mean = torch.var_mean(inputs[0], axes, correction=min(1, values - 1))
        for sums, value in ((moments.means, mean), (moments.variances, variance)):
            value = value.double()
            sums[name] = sums[name] + value if name in sums else value

    return hook


def put_statistics(model: nn.Module, moments: Moments) -> None:
    """Give the norm layers the averages they test with."""
    averages = moments.averages()
    for name, module in model.named_modules():
        if isinstance(module, StaticBatchNorm):
            mean, variance = averages[name]
            module.mean, module.variance = mean.to(module.weight), variance.to(module.weight)
