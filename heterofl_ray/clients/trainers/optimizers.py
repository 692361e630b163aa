"""The optimisers of clients: torch's own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, MutableMapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim.sgd import sgd

from heterofl_ray.setting_groups import OptimizerConfig


class Optimizer(Protocol):
    @property
    def state(self) -> MutableMapping[Tensor, Any]:
        """By parameter, what is known of the steps so far."""

    def zero_grad(self) -> None: ...

    def step(self) -> object: ...


class Sgd:
    """`torch.optim.SGD`, without the class, by the function that does its steps.

    Torch's classes import its compiler when the first of them is made: 900 modules, for which every
    worker that trains would take two seconds of a processor before its first step.
    """

    def __init__(
        self, parameters: Iterable[Tensor], lr: float, momentum: float, weight_decay: float
    ) -> None:
        self.state: defaultdict[Tensor, dict[str, Tensor]] = defaultdict(dict)
        self._parameters = list(parameters)
        self._lr = lr
        self._momentum = momentum
        self._weight_decay = weight_decay

    def zero_grad(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        moved = [parameter for parameter in self._parameters if parameter.grad is not None]
        slopes = [parameter.grad for parameter in moved if parameter.grad is not None]
        speeds = [self.state[parameter].get("momentum_buffer") for parameter in moved]
        sgd(
            moved,
            slopes,
            speeds,
            lr=self._lr,
            momentum=self._momentum,
            weight_decay=self._weight_decay,
            dampening=0,
            nesterov=False,
            maximize=False,
        )
        for parameter, speed in zip(moved, speeds, strict=True):
            if speed is not None:
                self.state[parameter]["momentum_buffer"] = speed


def make_optimizer(model: nn.Module, settings: OptimizerConfig, lr: float) -> Optimizer:
    parameters, decay = model.parameters(), settings.weight_decay
    match settings.name:
        case "sgd":
            return Sgd(parameters, lr, settings.momentum, decay)
        case "adam":
            return torch.optim.Adam(parameters, lr, weight_decay=decay)
        case "adamw":
            return torch.optim.AdamW(parameters, lr, weight_decay=decay)
        case "rmsprop":
            return torch.optim.RMSprop(
                parameters, lr, momentum=settings.momentum, weight_decay=decay
            )
        case _:
            return torch.optim.Adagrad(parameters, lr, weight_decay=decay)
