"""The plain trainer: the reference that every faster one is tested against."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from heterofl_ray.clients.losses import Objective
from heterofl_ray.clients.trainers.base import Batch, lower, mean_loss
from heterofl_ray.clients.trainers.memory import recall, remembered
from heterofl_ray.clients.trainers.optimizers import make_optimizer
from heterofl_ray.setting_groups import OptimizerConfig


@dataclass(frozen=True)
class PlainTrainer:
    settings: OptimizerConfig
    precision: torch.dtype = torch.float32
    memory: dict[str, Tensor] | None = field(default=None, kw_only=True)
    """What the optimiser goes on from, and then what it leaves; None: it is made anew."""

    def prepare(self, model: nn.Module, objective: Objective) -> None:
        """Nothing takes long."""

    def train(
        self, model: nn.Module, batches: Iterable[Batch], objective: Objective, lr: float
    ) -> float:
        model.train()
        optimizer = make_optimizer(model, self.settings, lr)
        if self.memory is not None:
            recall(optimizer, model, self.memory)
        losses, sizes = [], []
        for inputs, targets in batches:
            optimizer.zero_grad()
            loss = self.loss(model, objective, inputs, targets)
            loss.backward()
            if self.settings.clip_norm:
                nn.utils.clip_grad_norm_(model.parameters(), self.settings.clip_norm)
            optimizer.step()
            losses.append(loss.detach())
            sizes.append(targets.numel())
        if self.memory is not None:
            self.memory.update(remembered(optimizer, model))
        return mean_loss(losses, sizes)

    def loss(
        self, model: nn.Module, objective: Objective, inputs: Tensor, targets: Tensor
    ) -> Tensor:
        """Of one batch, with gradients."""
        with lower(self.precision, inputs.device):
            outputs = model(inputs)
        return objective(outputs.to(next(model.parameters()).dtype), targets)
