"""Several clients of one level trained together, as one model with an axis of clients in front.

On a GPU a step of 10 images is all launching of kernels, so 10 clients cost little more than one.
Clients are taken together where their batches have the same sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from heterofl_ray.clients.losses import Objective
from heterofl_ray.clients.trainers.base import Batch, mean_loss
from heterofl_ray.clients.trainers.step import Step
from heterofl_ray.models.layers import assign, parameters_of
from heterofl_ray.setting_groups import OptimizerConfig


@dataclass(frozen=True)
class VectorisedTrainer:
    settings: OptimizerConfig

    def prepare(self, model: nn.Module, objective: Objective) -> None:
        """Nothing takes long."""

    def train(
        self, model: nn.Module, batches: Iterable[Batch], objective: Objective, lr: float
    ) -> float:
        ((trained, loss),) = self.train_together(
            model, parameters_of(model), [batches], [objective], lr
        )
        assign(model, trained)
        return loss

    def train_together(
        self,
        model: nn.Module,
        start: dict[str, Tensor],
        batches: Sequence[Iterable[Batch]],
        objectives: Sequence[Objective],
        lr: float,
    ) -> list[tuple[dict[str, Tensor], float]]:
        """Each client's parameters and loss after training from ``start``."""
        model.train()
        step = Step(model, objectives[0].function, self.settings)
        count = len(batches)
        stacked = [
            start[name].unsqueeze(0).repeat(count, *[1] * start[name].dim()) for name in step.names
        ]
        momenta, rate = step.start(stacked), stacked[0].new_tensor(lr)
        masks = [objective.client for objective in objectives]
        clients = None if masks[0] is None else torch.stack([m for m in masks if m is not None])

        def gradients(
            parameters: Sequence[Tensor], inputs: Tensor, targets: Tensor, client: Tensor | None
        ) -> tuple[Sequence[Tensor], Tensor]:
            slopes, loss = step.gradients(parameters, inputs, targets, client)
            return step.clipped(slopes), loss

        axes = (0, 0, 0, None if clients is None else 0)
        together = torch.func.vmap(gradients, in_dims=axes)
        losses, sizes = [], []
        for step_batches in zip(*batches, strict=True):
            inputs = torch.stack([inputs for inputs, _ in step_batches])
            targets = torch.stack([targets for _, targets in step_batches])
            slopes, loss = together(stacked, inputs, targets, clients)
            step.update(stacked, momenta, slopes, rate)
            losses.append(loss)
            sizes.append(targets[0].numel())
        return [
            (
                {name: part[index] for name, part in zip(step.names, stacked, strict=True)},
                mean_loss([loss[index] for loss in losses], sizes),
            )
            for index in range(count)
        ]
