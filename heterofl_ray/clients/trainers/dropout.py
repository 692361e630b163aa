"""Dropout in a compiled step: drawn by torch before each step, as the plain trainer draws it.

A compiler has random numbers of its own. So what dropout keeps is a step's input instead, drawn by
the calls and in the order of the model's forward pass: the same client drops the same in both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

aten = torch.ops.aten


@dataclass(frozen=True)
class Draw:
    """Ones and zeros of a shape."""

    shape: tuple[int, ...]
    probability: float
    """Of a one."""
    dtype: str = "float32"

    def __call__(self) -> Tensor:
        return torch.empty(self.shape, dtype=getattr(torch, self.dtype)).bernoulli_(
            self.probability
        )


def drop(x: Tensor, probability: float, train: bool | None) -> tuple[Tensor, Tensor]:
    kept = aten.bernoulli.p(torch.empty_like(x), 1 - probability) / (1 - probability)
    return x * kept, kept


def drop_backward(gradient: Tensor, kept: Tensor, scale: float) -> Tensor:
    """``kept`` is scaled already."""
    return gradient * kept


DRAWN: dict[Any, Callable[..., Any]] = {
    aten.native_dropout.default: drop,
    aten.native_dropout_backward.default: drop_backward,
}


def drawn_before(graph: GraphModule) -> list[Draw]:
    """Have ``graph`` take as inputs, behind all others, what it would draw; what these are."""
    *_, last = graph.graph.find_nodes(op="placeholder")
    draws: list[Draw] = []
    for node in graph.graph.find_nodes(op="call_function", target=aten.bernoulli.p):
        with graph.graph.inserting_after(last):
            last = graph.graph.placeholder(f"draw{len(draws)}")
        value = last.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(last)
        dtype = str(value.dtype).removeprefix("torch.")
        draws.append(Draw(tuple(int(size) for size in value.shape), node.args[1], dtype))
        graph.graph.erase_node(node)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return draws


def to_text(draws: Sequence[Draw]) -> str:
    return json.dumps([asdict(draw) for draw in draws])


def from_text(text: str) -> tuple[Draw, ...]:
    return tuple(Draw(**{**draw, "shape": tuple(draw["shape"])}) for draw in json.loads(text))
