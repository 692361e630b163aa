"""Server optimisers: a round's means are a direction to go in, not the next model.

FedAvgM (T.-M. H. Hsu et al., 2019), FedAdam and FedYogi (S. Reddi et al., "Adaptive Federated
Optimization", ICLR 2021). With the pseudo-gradient g = mean - old value:

- avgm: m = beta1 m + g; value += lr m
- adam: m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g²; value += lr m / (sqrt(v) + tau)
- yogi: as adam, with v -= (1 - beta2) g² sign(v - g²)

m and v start at 0 and there is no bias correction. An element that no client of the round held has
no g: its value, m and v stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from heterofl_ray.method_settings import ServerConfig

MOMENTS = {
    "none": (),
    "avgm": ("momentum",),
    "adam": ("momentum", "variance"),
    "yogi": ("momentum", "variance"),
}


BESIDE = "optimizer/"
"""How names in a server's state begin that are no parameters of the model."""


class ServerOptimizer:
    """Makes the next parameters, in place. ``state`` is what it keeps between rounds, by name."""

    def __init__(self, settings: ServerConfig, parameters: Mapping[str, Tensor]) -> None:
        self._settings = settings
        self.state = {
            self._name(moment, name): torch.zeros_like(tensor)
            for moment in MOMENTS[settings.optimizer]
            for name, tensor in parameters.items()
        }

    def step(self, name: str, parameter: Tensor, means: Tensor, held: Tensor) -> None:
        """Move ``parameter`` towards ``means`` where it was ``held``."""
        if self._settings.optimizer == "none":
            torch.where(held, means, parameter, out=parameter)
        else:
            self.move(name, parameter, means - parameter, held)

    def move(self, name: str, parameter: Tensor, slope: Tensor, held: Tensor) -> None:
        """Move ``parameter`` by the pseudo-gradient ``slope`` where it was ``held``."""
        kind, beta1, beta2 = self._settings.optimizer, self._settings.beta1, self._settings.beta2
        fresh = 1.0 if kind == "avgm" else 1 - beta1
        direction = momentum = beta1 * self._kept("momentum", name) + fresh * slope
        if kind != "avgm":
            before, square = self._kept("variance", name), slope.square()
            if kind == "adam":
                variance = beta2 * before + (1 - beta2) * square
            else:
                variance = before - (1 - beta2) * square * torch.sign(before - square)
            direction = momentum / (variance.sqrt() + self._settings.tau)
            torch.where(held, variance, before, out=before)
        kept = self._kept("momentum", name)
        torch.where(held, momentum, kept, out=kept)
        moved = parameter + self._settings.learning_rate * direction
        torch.where(held, moved, parameter, out=parameter)

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state; one that was kept without moments begins with none."""
        for name, tensor in self.state.items():
            if name in state:
                tensor.copy_(state[name])
            else:
                tensor.zero_()

    def _kept(self, moment: str, name: str) -> Tensor:
        return self.state[self._name(moment, name)]

    @staticmethod
    def _name(moment: str, name: str) -> str:
        return f"{BESIDE}{moment}/{name}"
