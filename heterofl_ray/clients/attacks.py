"""What hostile clients do (``attack.*``), so that what stands against them can be tried out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from heterofl_ray.clients.trainers.base import Batch
from heterofl_ray.clients.workbench import Workbench

Parameters = Mapping[str, Tensor]


def relabelled(bench: Workbench, client: int, batches: Iterator[Batch]) -> Iterator[Batch]:
    """The batches; label_flip: with the client's labels in reverse order."""
    if client not in bench.hostile or bench.config.attack.kind != "label_flip":
        return batches
    labels = bench.data.labels(client).to(bench.device)
    reverse = labels.flip(0)
    return (
        (inputs, reverse[torch.searchsorted(labels, targets.contiguous())])
        for inputs, targets in batches
    )


def tampered(
    bench: Workbench, client: int, round_number: int, start: Parameters, trained: Parameters
) -> Parameters:
    """What a hostile client sends in place of what it ``trained`` from ``start``."""
    kind, scale = bench.config.attack.kind, bench.config.attack.scale
    if kind == "noise":
        sent = {}
        for name, tensor in trained.items():
            random = bench.streams.torch(f"attack: {name}", round_number, client)
            noise = torch.randn(tensor.shape, generator=random)
            sent[name] = start[name].to(tensor) + scale * noise.to(tensor)
        return sent
    factors = {"sign_flip": -scale, "scale": scale, "nan": float("nan"), "label_flip": 1.0}
    return {
        name: torch.lerp(start[name].to(tensor), tensor, factors[kind])
        for name, tensor in trained.items()
    }
