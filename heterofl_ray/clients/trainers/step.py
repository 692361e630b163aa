"""One training step as a pure function of tensors, for trainers that compile or vectorise it.

Gradient, clipping, weight decay, momentum and update in one piece: what `plain` does with autograd
and an optimiser object, so that a compiler sees all of it at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from heterofl_ray.setting_groups import OptimizerConfig

Loss = Callable[[Tensor, Tensor, Tensor | None], Tensor]


@dataclass(frozen=True)
class Step:
    """SGD on one batch. Parameters and momenta change in place; the loss is returned."""

    model: nn.Module
    loss: Loss
    settings: OptimizerConfig

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.model.named_parameters()]

    def __call__(
        self,
        parameters: Sequence[Tensor],
        momenta: Sequence[Tensor],
        inputs: Tensor,
        targets: Tensor,
        lr: Tensor,
        client: Tensor | None,
    ) -> Tensor:
        gradients, loss = self.gradients(parameters, inputs, targets, client)
        self.update(parameters, momenta, self.clipped(gradients), lr)
        return loss

    def gradients(
        self, parameters: Sequence[Tensor], inputs: Tensor, targets: Tensor, client: Tensor | None
    ) -> tuple[Sequence[Tensor], Tensor]:
        slopes = torch.func.grad_and_value(self.loss_of)
        gradients, loss = slopes(tuple(parameters), inputs, targets, client)
        return gradients, loss

    def loss_of(
        self, parameters: Sequence[Tensor], inputs: Tensor, targets: Tensor, client: Tensor | None
    ) -> Tensor:
        named = dict(zip(self.names, parameters, strict=True))
        outputs = torch.func.functional_call(self.model, named, (inputs,))
        return self.loss(outputs, targets, client)

    def clipped(self, gradients: Sequence[Tensor]) -> Sequence[Tensor]:
        """Scaled down together where their norm is too large."""
        if not self.settings.clip_norm:
            return gradients
        squares = [gradient.square().sum() for gradient in gradients]
        norm = torch.stack(squares).sum().sqrt()
        factor = (self.settings.clip_norm / (norm + 1e-6)).clamp(max=1)
        return [gradient * factor for gradient in gradients]

    @torch.no_grad()
    def update(
        self,
        parameters: Sequence[Tensor],
        momenta: Sequence[Tensor],
        gradients: Sequence[Tensor],
        lr: Tensor,
    ) -> None:
        decay, kept = self.settings.weight_decay, self.settings.momentum
        for index, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
            direction = gradient + decay * parameter if decay else gradient
            if momenta:
                direction = kept * momenta[index] + direction
                momenta[index].copy_(direction)
            parameter.sub_(lr * direction)

    def start(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        """Momenta before the first step."""
        if not self.settings.momentum:
            return []
        return [torch.zeros_like(parameter) for parameter in parameters]


class TapedStep(Step):
    """The same with autograd's tape.

    A compiler that reads it may leave lengths open, which `torch.func` would fix.
    """

    def gradients(
        self, parameters: Sequence[Tensor], inputs: Tensor, targets: Tensor, client: Tensor | None
    ) -> tuple[Sequence[Tensor], Tensor]:
        leaves = [parameter.detach().requires_grad_() for parameter in parameters]
        with torch.enable_grad():
            loss = self.loss_of(leaves, inputs, targets, client)
            gradients = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
        return gradients, loss.detach()
