"""The global model's parameters as files and fingerprints. No pickle."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor

from heterofl_ray.errors import DataError

Parameters = Mapping[str, Tensor]


def fingerprint(parameters: Parameters) -> str:
    """SHA-256 over names, types, shapes and bytes, in the order of names."""
    digest = hashlib.sha256()
    for name in sorted(parameters):
        tensor = parameters[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def save(path: Path, parameters: Parameters) -> None:
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in parameters.items()}
    safetensors.torch.save_file(tensors, path)


def load(path: Path) -> dict[str, Tensor]:
    try:
        tensors: dict[str, Tensor] = safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise DataError(f"{path}: cannot be read as safetensors: {error}") from None
    return tensors
