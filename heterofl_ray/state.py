"""A run's tensors as files and fingerprints: the server's, and what clients keep. No pickle."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from heterofl_ray.errors import DataError

Parameters = Mapping[str, Tensor]


@dataclass(frozen=True)
class ClientState:
    """What one client keeps to itself: it never goes to the server."""

    round_number: int
    """The round in which it last changed; with the client, it names these very tensors."""
    tensors: Any
    """By name; or the backend's handle of them."""


def fingerprint(parameters: Parameters) -> str:
    """SHA-256 over names, types, shapes and bytes, in the order of names."""
    digest = hashlib.sha256()
    for name in sorted(parameters):
        tensor = parameters[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def flat(clients: Mapping[int, Parameters]) -> dict[str, Tensor]:
    """What clients keep under names of its own: 'clients/CLIENT/NAME'."""
    return {
        f"clients/{client}/{name}": tensor
        for client, tensors in clients.items()
        for name, tensor in tensors.items()
    }


def by_client(tensors: Parameters) -> dict[int, dict[str, Tensor]]:
    """What `flat` was made from."""
    clients: dict[int, dict[str, Tensor]] = {}
    for full, tensor in tensors.items():
        _, client, name = full.split("/", 2)
        clients.setdefault(int(client), {})[name] = tensor
    return clients


def save(path: Path, parameters: Parameters) -> None:
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in parameters.items()}
    safetensors.torch.save_file(tensors, path)


def load(path: Path) -> dict[str, Tensor]:
    try:
        tensors: dict[str, Tensor] = safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise DataError(f"{path}: cannot be read as safetensors: {error}") from None
    return tensors
