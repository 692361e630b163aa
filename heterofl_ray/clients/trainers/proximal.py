"""FedProx's local steps: any eager trainer's, with a pull towards where training began."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from heterofl_ray.clients.losses import Objective
from heterofl_ray.clients.trainers.base import Batch, Trainer


@dataclass(frozen=True)
class Proximal(Objective):
    """A loss with mu/2 times the squared distance of ``parameters`` from ``anchor`` added."""

    parameters: tuple[nn.Parameter, ...]
    anchor: tuple[Tensor, ...]
    mu: float

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        loss = super().__call__(logits, targets)
        if not self.mu:
            return loss
        pairs = zip(self.parameters, self.anchor, strict=True)
        distances = [(parameter - start).square().sum() for parameter, start in pairs]
        return loss + self.mu / 2 * torch.stack(distances).sum()


@dataclass(frozen=True)
class ProximalTrainer:
    """The loss it tells is the whole one."""

    inner: Trainer
    """One that calls its objective and has autograd do the rest."""
    mu: float

    def prepare(self, model: nn.Module, objective: Objective) -> None:
        self.inner.prepare(model, objective)

    def train(
        self, model: nn.Module, batches: Iterable[Batch], objective: Objective, lr: float
    ) -> float:
        parameters = tuple(model.parameters())
        anchor = tuple(parameter.detach().clone() for parameter in parameters)
        pulled = Proximal(objective.function, objective.client, parameters, anchor, self.mu)
        return self.inner.train(model, batches, pulled, lr)
