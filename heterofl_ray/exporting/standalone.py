"""Loads a model that ``heterofl-ray export --format safetensors`` wrote.

This file needs torch and safetensors, nothing else; a copy of it lies beside every such model.

    from load_model import load
    model = load("level-c.safetensors")
    logits = model(inputs)

The file's header lists operations of torch by name, in order, with their arguments. Nothing in it
is run as code, and no operations but those in ``OPERATIONS`` can be named, none of which reads or
writes a file. A file that is wrong, or too large, is a ValueError.
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
LARGEST_FILE = 4 * 1024**3
"""Bytes of a file, which is about the memory that its model takes."""
LARGEST_HEADER = 16 * 1024**2
"""Bytes of the list of operations, which takes many times that once it is read."""

# What a model may be made of. The first group is what this package's own models are exported as,
# the second what others often need; all take tensors and give tensors.
OPERATIONS = frozenset(
    """
    aten.add.Tensor aten.arange.default aten.clamp.default aten.conv2d.default aten.div.Tensor
    aten.embedding.default aten.flatten.using_ints aten.gelu.default aten.group_norm.default
    aten.gt.Scalar aten.layer_norm.default aten.linear.default aten.max_pool2d.default
    aten.mean.dim aten.mul.Tensor aten.relu.default aten.relu_.default
    aten.scaled_dot_product_attention.default aten.select.int aten.slice.Tensor aten.sub.Tensor
    aten.tanh.default aten.to.dtype aten.transpose.int aten.unbind.int aten.unflatten.int
    aten.unsqueeze.default size.getitem

    aten.adaptive_avg_pool2d.default aten.avg_pool2d.default aten.bmm.default aten.cat.default
    aten.chunk.default aten.conv1d.default aten.elu.default aten.exp.default aten.expand.default
    aten.leaky_relu.default aten.log.default aten.log_softmax.int aten.matmul.default
    aten.max_pool1d.default aten.mean.default aten.permute.default aten.pow.Tensor_Scalar
    aten.reshape.default aten.rsqrt.default aten.sigmoid.default aten.silu.default
    aten.softmax.int aten.split.Tensor aten.sqrt.default aten.squeeze.dim aten.stack.default
    aten.sum.dim_IntList aten.sym_size.int aten.view.default aten.where.self
    size.add size.sub size.mul size.floordiv
    """.split()  # noqa: SIM905 - a line for each would be two pages
)


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
    if name not in OPERATIONS:
        raise ValueError(f"operation {str(name)[:80]!r} is not known here")
    kind, operation, *overload = name.split(".")
    if kind == "size":  # of inputs whose number is not known beforehand
        return getattr(operator, operation)
    return getattr(getattr(torch.ops.aten, operation), *overload)


def _check_size(path: Path) -> None:
    """Asked before memory is taken."""
    if not path.is_file():
        path.stat()  # which says so if there is nothing at all
        raise ValueError("it is not a file")
    if path.stat().st_size > LARGEST_FILE:
        raise ValueError(f"it is larger than {LARGEST_FILE // 1024**3} GiB")
    with path.open("rb") as file:
        header = int.from_bytes(file.read(8), "little")
    if header > LARGEST_HEADER:
        raise ValueError(f"its header is larger than {LARGEST_HEADER // 1024**2} MiB")


def load(path: str | Path) -> Exported:
    """The model in a file, ready for inference on the CPU; ``.to(device)`` moves it."""
    try:
        _check_size(Path(path))
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
