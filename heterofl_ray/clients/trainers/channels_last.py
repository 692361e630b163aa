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


def laid_out(batches: Iterable[Batch]) -> Iterator[Batch]:
    for inputs, targets in batches:
        if inputs.dim() == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        yield inputs, targets
