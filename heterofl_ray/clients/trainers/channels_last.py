"""The plain trainer with images and kernels laid out channels last, as CPUs and tensor cores like.

The arithmetic is the same; sums run in another order, so the last bits differ from plain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import nn

from heterofl_ray.clients.losses import Objective
from heterofl_ray.clients.trainers.base import Batch
from heterofl_ray.clients.trainers.plain import PlainTrainer


@dataclass(frozen=True)
class ChannelsLastTrainer(PlainTrainer):
    def train(
        self, model: nn.Module, batches: Iterable[Batch], objective: Objective, lr: float
    ) -> float:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        loss = super().train(model, laid_out(batches), objective, lr)
        model.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        return loss


def overruns(model: nn.Module) -> bool:
    """Whether a CPU's way back through the model would write outside its memory.

    oneDNN 3.12 does for kernels of one pixel that skip every other pixel of fewer than 8 channels,
    which narrow levels of residual models have. Seen with vectors of 8 floats (AVX2).
    """
    return any(
        isinstance(layer, nn.Conv2d)
        and layer.kernel_size == (1, 1)
        and layer.stride != (1, 1)
        and layer.in_channels < 8
        for layer in model.modules()
    )


def laid_out(batches: Iterable[Batch]) -> Iterator[Batch]:
    for inputs, targets in batches:
        if inputs.dim() == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        yield inputs, targets
