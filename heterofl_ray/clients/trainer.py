"""The plain trainer: the reference that every faster one is tested against."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from heterofl_ray.setting_groups import OptimizerConfig

Batch = tuple[Tensor, Tensor]
Loss = Callable[[Tensor, Tensor], Tensor]


def train(
    model: nn.Module, batches: Iterable[Batch], loss: Loss, settings: OptimizerConfig, lr: float
) -> float:
    """Train ``model`` in place over ``batches``; the mean loss over their examples."""
    model.train()
    optimizer = make_optimizer(model, settings, lr)
    losses, sizes = [], []
    for inputs, targets in batches:
        optimizer.zero_grad(set_to_none=True)
        value = loss(model(inputs), targets)
        value.backward()
        if settings.clip_norm:
            nn.utils.clip_grad_norm_(model.parameters(), settings.clip_norm)
        optimizer.step()
        losses.append(value.detach())
        sizes.append(targets.numel())
    weights = torch.tensor(sizes, dtype=torch.float64)
    return float(torch.stack(losses).cpu().double() @ weights / weights.sum())


def make_optimizer(model: nn.Module, settings: OptimizerConfig, lr: float) -> torch.optim.Optimizer:
    parameters, decay = model.parameters(), settings.weight_decay
    match settings.name:
        case "sgd":
            return torch.optim.SGD(parameters, lr, momentum=settings.momentum, weight_decay=decay)
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
