"""What every trainer does, and what it is given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from heterofl_ray.clients.losses import Objective

Batch = tuple[Tensor, Tensor]


class Trainer(Protocol):
    """Trains one client's model."""

    def prepare(self, model: nn.Module, objective: Objective) -> None:
        """Do ahead what takes long and is the same for all clients."""
        ...

    def train(
        self, model: nn.Module, batches: Iterable[Batch], objective: Objective, lr: float
    ) -> float:
        """Train ``model`` in place over ``batches``; the mean loss over their examples."""
        ...


def lower(precision: torch.dtype, device: torch.device) -> torch.autocast:
    """Within this, a model's large products are computed in ``precision``."""
    lowered = precision is not torch.float32
    return torch.autocast(device.type, torch.bfloat16, enabled=lowered, cache_enabled=False)


def mean_loss(losses: Sequence[Tensor], sizes: Sequence[int]) -> float:
    """Over all examples; the losses stay on their device until this one look at them."""
    weights = torch.tensor(sizes, dtype=torch.float64)
    return float(torch.stack(list(losses)).cpu().double() @ weights / weights.sum())
