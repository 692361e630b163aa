"""How tensors travel through Ray's object store."""

from __future__ import annotations

from typing import Any

import numpy as np
import ray.util
import torch
from torch import Tensor

from heterofl_ray.data.store import view


def register_tensors() -> None:
    """Send tensors as NumPy arrays, which readers on the same machine map without a copy.

    What is received is read-only; whoever changes parameters takes a copy first. To be called once
    in every process that sends or receives.
    """
    ray.util.register_serializer(torch.Tensor, serializer=_to_array, deserializer=view)


def _to_array(tensor: Tensor) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = tensor.detach().cpu().contiguous().numpy()
    return array
