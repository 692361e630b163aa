"""Masked accumulation in one pass over a slice, for CUDA: sums and counts together.

The plain path in `overlap` makes two passes, each through strided views or index tensors. Here a
slice's element finds its place as the sum of a row offset and a column offset, so one kernel
serves leading channels, heads, picked channels and label rows alike. Checked against the plain
path under Triton's interpreter where there is no GPU.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from heterofl_ray.submodels.plan import Leading, Picked, Selection

BLOCK = 1024


@cache
def available() -> bool:
    return importlib.util.find_spec("triton") is not None


def fused_add(
    sums: Tensor,
    counts: Tensor,
    selections: Sequence[Selection],
    values: Tensor,
    weights: Tensor,
) -> None:
    """``sums[selections] += values`` and ``counts[selections] += weights``, in place.

    ``counts`` has one entry along axes that are never cut; ``weights`` has the number of axes of
    ``values`` and broadcasts to it.
    """
    values = values.contiguous()
    if not values.numel():
        return
    places = [
        _places(selection, size, sums.device)
        for selection, size in zip(selections, sums.shape, strict=True)
    ]
    rows, columns = places[:1], places[1:]
    width = values.numel() // values.shape[0]
    grid = (-(-values.numel() // BLOCK),)
    with torch.cuda.device_of(sums):  # Triton launches on the current device
        _kernel()[grid](
            sums,
            counts,
            values,
            _offsets(rows, sums.stride()[:1]),
            _offsets(columns, sums.stride()[1:]),
            _count_offsets(rows, counts.shape[:1], counts.stride()[:1]),
            _count_offsets(columns, counts.shape[1:], counts.stride()[1:]),
            *_spread_weights(weights.to(counts), values.shape),
            values.numel(),
            width,
            BLOCK=BLOCK,
        )


def _places(selection: Selection, size: int, device: torch.device) -> Tensor:
    """The selected entries of an axis, written out."""
    match selection:
        case Leading(segments=segments, outer=outer, inner=inner):
            starts = torch.arange(segments, device=device) * outer
            return (starts[:, None] + torch.arange(inner, device=device)).flatten()
        case Picked(places=places):
            return places.to(device)
        case _:
            return torch.arange(size, device=device)


def _offsets(places: Sequence[Tensor], strides: Sequence[int]) -> Tensor:
    """Where each combination of entries lies in memory, in row-major order."""
    total = torch.zeros(1, dtype=torch.long, device=places[0].device if places else None)
    for entries, stride in zip(places, strides, strict=True):
        total = (total[:, None] + entries * stride).flatten()
    return total


def _count_offsets(
    places: Sequence[Tensor], shape: Sequence[int], strides: Sequence[int]
) -> Tensor:
    """The same in the counts; -1 for all but one of the elements that share a count."""
    total = torch.zeros(1, dtype=torch.long, device=places[0].device if places else None)
    for entries, size, stride in zip(places, shape, strides, strict=True):
        steps = entries * stride
        if size == 1:
            steps = torch.where(entries == 0, 0, -1)
        known = (total[:, None] >= 0) & (steps >= 0)
        total = torch.where(known, total[:, None] + steps, -1).flatten()
    return total


def _spread_weights(weights: Tensor, shape: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Weights of rows and of columns, whose product is an element's; one of them is all ones."""
    width = math.prod(shape[1:])
    if weights.shape[0] > 1 or weights.numel() == 1:
        return weights.flatten().expand(shape[0]).contiguous(), weights.new_ones(width)
    return weights.new_ones(shape[0]), weights.expand((1, *shape[1:])).flatten().contiguous()


@cache
def _kernel() -> Any:
    """Compiled when first needed, so that machines without Triton can import this module."""
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator]
    def add(  # type: ignore[no-untyped-def]
        sums,
        counts,
        values,
        row_places,
        column_places,
        row_counts,
        column_counts,
        row_weights,
        column_weights,
        elements,
        width,
        BLOCK: tl.constexpr,  # noqa: N803
    ):
        element = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = element < elements
        row = element // width
        column = element % width
        place = tl.load(row_places + row, inside, 0) + tl.load(column_places + column, inside, 0)
        old = tl.load(sums + place, inside, 0)
        new = tl.load(values + element, inside, 0)
        tl.store(sums + place, old + new.to(old.dtype), inside)

        in_row = tl.load(row_counts + row, inside, -1)
        in_column = tl.load(column_counts + column, inside, -1)
        counted = inside & (in_row >= 0) & (in_column >= 0)
        weight = tl.load(row_weights + row, counted, 0) * tl.load(
            column_weights + column, counted, 0
        )
        count = tl.load(counts + in_row + in_column, counted, 0)
        tl.store(counts + in_row + in_column, count + weight, counted)

    return add
