"""Cutting a client's parameters out of the global model and averaging them back, by index lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from benchmarks.baseline.transformer import HEADS

Parameters = dict[str, Tensor]
Indices = dict[str, tuple[Tensor, ...]]

BY_HEAD = ("query.", "key.", "value.")


@dataclass(frozen=True)
class Update:
    """What a client sends back."""

    parameters: Parameters
    indices: Indices
    labels: Tensor | None = None
    """The labels whose rows it counts for; None: all."""


def index_lists(whole: Parameters, local: nn.Module) -> Indices:
    """For each parameter, the places along its first two axes that a local model holds."""
    lists = {}
    for name, parameter in local.named_parameters():
        axes = []
        for axis, kept in enumerate(parameter.shape[:2]):
            by_head = any(layer in name for layer in BY_HEAD) and axis == 0
            by_head = by_head or ("attention.out.weight" in name and axis == 1)
            if by_head:
                places = torch.arange(whole[name].shape[axis]).view(HEADS, -1)
                axes.append(places[:, : kept // HEADS].reshape(-1))
            else:
                axes.append(torch.arange(kept))
        lists[name] = tuple(axes)
    return lists


def distribute(whole: Parameters, lists: Indices) -> Parameters:
    """A client's own copy."""
    return {
        name: tensor[torch.meshgrid(*lists[name], indexing="ij")].clone()
        for name, tensor in whole.items()
    }


def combine(whole: Parameters, updates: Sequence[Update], label_rows: Mapping[str, int]) -> None:
    """Each entry becomes the mean over the clients that hold it, in place.

    ``label_rows`` names the parameters whose rows count only for clients that hold that label,
    and says how many rows at their end count for everyone.
    """
    for name, tensor in whole.items():
        total, count = torch.zeros_like(tensor), torch.zeros_like(tensor)
        for update in updates:
            places, values = update.indices[name], update.parameters[name]
            if update.labels is not None and name in label_rows:
                shared = torch.arange(len(tensor) - label_rows[name], len(tensor))
                rows = torch.cat([update.labels, shared])
                places, values = (rows, *places[1:]), values[rows]
            mesh = torch.meshgrid(*places, indexing="ij")
            total[mesh] += values
            count[mesh] += 1
        held = count > 0
        tensor[held] = total[held] / count[held]
