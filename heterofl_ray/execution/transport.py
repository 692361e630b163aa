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


INLINED_BYTES = 100 * 1024
"""Up to which Ray hands a result to whoever asked for it instead of storing it."""


class Stored:
    """A result that goes into the object store however small it is; read, it is the value itself.

    Ray would send a small one to the driver, and from there to everybody who needs it.
    """

    def __init__(self, value: Any) -> None:
        self._value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return _value, (self._value, bytes(INLINED_BYTES))


def _value(value: Any, padding: bytes) -> Any:
    return value


def _to_array(tensor: Tensor) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = tensor.detach().cpu().contiguous().numpy()
    return array
