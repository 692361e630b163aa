"""A model as a plain graph of torch operations, with all that only training needs folded away.

`torch.export` records the operations, whatever the model is made of. Dropout disappears; a Scaler's
division and a static batch norm go into the weights of the convolution, linear layer or embedding
before them, or become one multiplication and one addition where there is none.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export import Dim, export

from heterofl_ray.errors import ConfigError

aten: Any = torch.ops.aten
# fx takes an argument for any of a dozen types; which it is follows from the operation.
Node = Any

# Where an operation has its weight and its bias; an embedding has no bias.
_WEIGHTED = {
    aten.conv1d.default: (1, 2),
    aten.conv2d.default: (1, 2),
    aten.linear.default: (1, 2),
    aten.embedding.default: (0, None),
}
_DROPOUTS = (aten.dropout.default, aten.dropout_.default)
_BATCH_NORM = aten.batch_norm.default
_DIVISION = aten.div.Tensor


def plain_graph(model: nn.Module, example: Tensor) -> fx.GraphModule:
    """The model as operations on named tensors; any number of examples at once."""
    try:
        with torch.no_grad():
            program = export(model, (example,), dynamic_shapes=({0: Dim.DYNAMIC},), strict=False)
    except Exception as error:  # noqa: BLE001 (torch raises whatever the user's code does)
        reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        raise ConfigError(
            f"{type(model).__name__} cannot be exported: torch.export says {reason}"
        ) from None
    recorded: Any = program.module()
    return _Folding(recorded).folded()


class _Folding:
    """One pass over a recorded graph, changing it in place."""

    def __init__(self, recorded: fx.GraphModule) -> None:
        self.module = fx.GraphModule(nn.Module(), fx.Graph(), "Exported")
        for node in nodes_of(recorded):
            if node.op == "get_attr" and not hasattr(self.module, flat_name(node.target)):
                self._keep(flat_name(node.target), _attribute(recorded, node.target))
        copies: dict[Node, Node] = {}
        self.graph = self.module.graph
        for node in nodes_of(recorded):
            if _is_check(node):
                continue
            copies[node] = self.graph.node_copy(node, copies.__getitem__)
            if node.op == "get_attr":
                copies[node].target = flat_name(node.target)

    def folded(self) -> fx.GraphModule:
        for node in nodes_of(self.module):
            if node.op == "output":
                while isinstance(node.args[0], (tuple, list)):
                    node.args = (node.args[0][0],)
            elif node.target in _DROPOUTS:
                self._replace(node, node.args[0])
        for node in nodes_of(self.module):
            if node.target is _BATCH_NORM:
                self._fold_batch_norm(node)
        for node in nodes_of(self.module):
            if node.target is _DIVISION and isinstance(node.args[1], (int, float)):
                self._fold_division(node)
        self.graph.eliminate_dead_code()
        used = {node.target for node in nodes_of(self.module) if node.op == "get_attr"}
        for name, _ in list(self.module.named_buffers()):
            if name not in used:
                delattr(self.module, name)
        self.module.recompile()
        self.module.eval()
        return self.module

    def _fold_batch_norm(self, node: Node) -> None:
        source, weight, bias, mean, variance, training, _, eps, *_ = node.args
        if training:
            return
        spread = (self._value(variance) + eps).sqrt()
        factor = (1.0 if weight is None else self._value(weight)) / spread
        shift = -self._value(mean) * factor + (0.0 if bias is None else self._value(bias))
        divided = source.target is _DIVISION and isinstance(source.args[1], (int, float))
        if divided:  # a Scaler between the layer and its norm
            factor = factor / source.args[1]
            source = source.args[0]
        before = node.args[0] if divided else source
        if len(before.users) == 1 and self._fold_into(source, node, factor, shift):
            return
        shape = [-1] + [1] * (node.meta["val"].dim() - 2)
        with self.graph.inserting_before(node):
            scaled = self.graph.call_function(
                aten.mul.Tensor, (source, self._new(f"{node.name}_factor", factor.view(shape)))
            )
            moved = self.graph.call_function(
                aten.add.Tensor, (scaled, self._new(f"{node.name}_shift", shift.view(shape)))
            )
            moved.meta = dict(node.meta)
        self._replace(node, moved)

    def _fold_division(self, node: Node) -> None:
        source, divisor = node.args
        factor = torch.tensor(1 / divisor, dtype=torch.float64)
        self._fold_into(source, node, factor, None)

    def _fold_into(self, layer: Node, node: Node, factor: Tensor, shift: Tensor | None) -> bool:
        """Have ``layer`` give what ``node`` does, if it can: output x factor + shift by channel."""
        places = _WEIGHTED.get(layer.target)
        if places is None or len(layer.users) > 1:
            return False
        weight_at, bias_at = places
        # a linear layer's channels are last, a batch norm's are second
        last = layer.target is aten.linear.default and node.meta["val"].dim() != 2
        if factor.dim() and (bias_at is None or last):
            return False
        arguments = [*layer.args, *([None] * (3 - len(layer.args)))]
        weight = self._value(arguments[weight_at])
        rows = factor.view([-1] + [1] * (weight.dim() - 1)) if factor.dim() else factor
        with self.graph.inserting_before(layer):
            arguments[weight_at] = self._new(arguments[weight_at].target, weight * rows)
            if bias_at is not None:
                old = arguments[bias_at]
                bias = None if old is None else self._value(old) * factor
                if shift is not None:
                    bias = shift if bias is None else bias + shift
                if bias is not None:
                    name = arguments[weight_at].target + "_bias" if old is None else old.target
                    arguments[bias_at] = self._new(name, bias)
        layer.args = tuple(arguments[: max(len(layer.args), 3 if bias_at else 0)])
        self._replace(node, layer)
        return True

    def _value(self, node: Node) -> Tensor:
        return self.module.get_buffer(node.target).double()

    def _keep(self, name: str, value: Tensor) -> None:
        self.module.register_buffer(name, value)

    def _new(self, name: str, value: Tensor) -> Node:
        """A tensor of its own: the one it comes from may have other users."""
        free, number = name, 1
        while hasattr(self.module, free):
            number += 1
            free = f"{name}_{number}"
        self._keep(free, value.float().contiguous())
        return self.graph.get_attr(free)

    def _replace(self, node: Node, other: Any) -> None:
        node.replace_all_uses_with(other)
        self.graph.erase_node(node)


def nodes_of(module: fx.GraphModule) -> list[Node]:
    return list(module.graph.nodes)


def flat_name(path: str) -> str:
    """A tensor's path as one attribute name."""
    return path.replace(".", "__")


def _is_check(node: Node) -> bool:
    """A guard that torch put in about the shapes it saw."""
    text = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return not node.users and node.op.startswith("call") and ("guard" in text or "_assert" in text)


def _attribute(module: nn.Module, path: str) -> Tensor:
    found: Any = module
    for name in path.split("."):
        found = getattr(found, name)
    tensor: Tensor = found.detach().clone()
    return tensor
