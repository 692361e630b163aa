"""Loads a model that ``heterofl-ray export --format safetensors`` wrote.

This file needs torch and safetensors, nothing else; a copy of it lies beside every such model.

    from load_model import load
    model = load("level-c.safetensors")
    logits = model(inputs)

The file's header lists operations of torch by name, in order, with their arguments. Nothing in it
is run as code, and none of the operations reads or writes a file. A file that is wrong is a
ValueError.
"""

from __future__ import annotations

import json
import operator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

FORMAT = "heterofl-ray-1"
# Sums and products of sizes, for inputs whose number is not known beforehand.
_SIZES = ("add", "sub", "mul", "floordiv", "getitem")


_FILES = ("from_file",)  # maps a file of any name, or makes it


class Exported(nn.Module):
    """Runs the listed operations."""

    def __init__(self, description: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        super().__init__()
        self.description = description
        self._names = {name: f"tensor{place}" for place, name in enumerate(tensors)}
        for name, tensor in tensors.items():
            self.register_buffer(self._names[name], tensor)
        self._steps = [
            (step["name"], _operation(step["op"]), step["args"], step["kwargs"])
            for step in description["graph"]["steps"]
        ]
        self._input = description["graph"]["input"]
        self._output = description["graph"]["output"]
        self.eval()

    @torch.no_grad()
    def forward(self, inputs: Tensor) -> Tensor:
        values: dict[str, Any] = {self._input: inputs}
        for name, run, args, kwargs in self._steps:
            values[name] = run(
                *(self._argument(each, values) for each in args),
                **{key: self._argument(each, values) for key, each in kwargs.items()},
            )
        logits: Tensor = values[self._output]
        return logits

    def _argument(self, written: Any, values: dict[str, Any]) -> Any:
        if isinstance(written, list):
            return [self._argument(each, values) for each in written]
        if not isinstance(written, dict):
            return written
        (kind, name), *_ = written.items()
        if kind == "step":
            return values[name]
        if kind == "tensor":
            return getattr(self, self._names[name])
        dtype = getattr(torch, name, None)
        if not isinstance(dtype, torch.dtype):
            raise ValueError(f"{name!r} is no dtype of torch")
        return dtype


def _operation(name: str) -> Any:
    kind, *path = name.split(".")
    if kind == "aten" and len(path) == 2 and path[0] not in _FILES:
        packet: Any = getattr(torch.ops.aten, path[0], None)
        if path[1] in (packet.overloads() if hasattr(packet, "overloads") else ()):
            return getattr(packet, path[1])
    if kind == "size" and len(path) == 1 and path[0] in _SIZES:
        return getattr(operator, path[0])
    raise ValueError(f"operation {name!r} is not known here")


def load(path: str | Path) -> Exported:
    """The model in a file, ready for inference on the CPU; ``.to(device)`` moves it."""
    try:
        with safe_open(str(path), framework="pt") as file:
            description = json.loads((file.metadata() or {}).get("heterofl-ray", "{}"))
            if not isinstance(description, dict) or description.get("format") != FORMAT:
                raise ValueError("it was not written by 'heterofl-ray export'")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return Exported(description, tensors)
    except (SafetensorError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no exported model: {error}") from None
    except RecursionError:
        raise ValueError(f"{path} is no exported model: its header is nested too deep") from None
