"""What an optimiser knows of the steps so far, as tensors by name, for one that goes on later."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from heterofl_ray.clients.trainers.optimizers import Optimizer


def recall(optimizer: Optimizer, model: nn.Module, memory: Mapping[str, Tensor]) -> None:
    """Let a new optimiser of the model go on from what was `remembered`; nothing: it begins."""
    for name, parameter in model.named_parameters():
        start = f"{name}/"
        known = {key.removeprefix(start): t for key, t in memory.items() if key.startswith(start)}
        if known:
            # a count of steps stays on the CPU; what is as large as the parameter is beside it
            optimizer.state[parameter] = {
                key: tensor.to(parameter.device if tensor.dim() else "cpu", copy=True)
                for key, tensor in known.items()
            }


def remembered(optimizer: Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """By 'PARAMETER/WHAT', on the CPU."""
    return {
        f"{name}/{key}": tensor.detach().to("cpu", copy=True).contiguous()
        for name, parameter in model.named_parameters()
        for key, tensor in optimizer.state[parameter].items()
    }
