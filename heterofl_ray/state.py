"""A run's tensors as files and fingerprints: the server's, and what clients keep. No pickle."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import safetensors.torch
import torch
from torch import Tensor

from heterofl_ray.errors import DataError, shown

Parameters = Mapping[str, Tensor]
_OF_CLIENT = re.compile(r"clients/([0-9]{1,9})/(.+)")


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
        named = _OF_CLIENT.fullmatch(full)
        if named is None:
            raise DataError(f"tensor {shown(full)} is not named by a client, as 'clients/3/NAME'")
        clients.setdefault(int(named[1]), {})[named[2]] = tensor
    return clients


def save(path: Path, parameters: Parameters) -> None:
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in parameters.items()}
    try:
        safetensors.torch.save_file(tensors, path)
    except safetensors.SafetensorError as error:  # a full disk is told as one of these
        raise OSError(f"{path.name} cannot be written: {error}") from None


def load(path: Path) -> dict[str, Tensor]:
    """The tensors in a file, which hold no more bytes than the file; no more than fit in memory."""
    try:
        size = path.stat().st_size if path.is_file() else 0
        if size > psutil.virtual_memory().total:
            raise DataError(f"{path}: {size} bytes are more than this machine's memory")
        tensors: dict[str, Tensor] = safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise DataError(f"{path}: cannot be read as safetensors: {error}") from None
    return tensors
