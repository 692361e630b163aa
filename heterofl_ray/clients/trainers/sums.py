"""Sums over a batch's pixels, axis by axis.

One long sum is compiled to a loop that keeps its parts in memory, for accuracy; sums over each
image first and over images then stay in registers, and are as accurate.

Used as replacements while a training step is traced.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def variance_and_mean(
    x: Tensor,
    dim: list[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Any:
    """In two plain passes, which compile to plain loops; for batch norm's biased variance."""
    if correction != 0 or dim is None or len(dim) < 2:
        return NotImplemented
    count = math.prod(x.shape[axis] for axis in dim)
    mean = in_stages(x, dim, True) / count
    variance = in_stages((x - mean).square(), dim, True) / count
    return (variance, mean) if keepdim else (variance.squeeze(dim), mean.squeeze(dim))


def total(
    x: Tensor, dim: list[int] | None = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    if dtype is not None or dim is None or len(dim) < 3:
        return NotImplemented
    return in_stages(x, dim, keepdim)


def in_stages(x: Tensor, dim: Sequence[int], keepdim: bool = False) -> Tensor:
    """The sum over inner axes, then over the outermost."""
    outer, *inner = sorted(axis % x.dim() for axis in dim)
    summed = x.sum(inner, True).sum(outer, True)
    return summed if keepdim else summed.squeeze(list(dim))


IN_STAGES: dict[Any, Callable[..., Any]] = {
    aten.var_mean.correction: variance_and_mean,
    aten.sum.dim_IntList: total,
}
