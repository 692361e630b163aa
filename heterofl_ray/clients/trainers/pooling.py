"""Max pooling over windows that lie side by side.

A compiler makes slow code of the way back; the library's own walks over the windows and is many
times faster, so the compiler is told to call it. The way forward is best compiled together with
the layers around it. The place of a window's largest pixel is noted in floating point until the
end, which keeps the loop of one type. Of equal pixels the first counts, as in torch.

Used as a replacement while a training step is traced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

aten = torch.ops.aten


def forward(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    ceil_mode: bool = False,
) -> Any:
    if not simple(x, kernel, stride, padding, dilation, ceil_mode):
        return NotImplemented
    down, right = kernel
    rows, columns = x.shape[-2] // down, x.shape[-1] // right
    pixels = [
        x[..., row : rows * down : down, column : columns * right : right]
        for row in range(down)
        for column in range(right)
    ]
    largest, place = pixels[0], torch.zeros_like(pixels[0])
    for number, pixel in enumerate(pixels[1:], 1):
        row, column = divmod(number, right)
        place = torch.where(pixel > largest, float(row * x.shape[-1] + column), place)
        largest = torch.where(pixel > largest, pixel, largest)
    first = torch.arange(rows)[:, None] * down * x.shape[-1] + torch.arange(columns) * right
    return largest, place.long() + first


def simple(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> bool:
    """Whether windows lie side by side; others stay with the compiler."""
    return (
        list(stride or kernel) == list(kernel)
        and not any(padding)
        and {*dilation} == {1}
        and not ceil_mode
        and x.dtype in (torch.float32, torch.float64)  # which hold a place exactly
    )


@contextmanager
def library_backward() -> Iterator[None]:
    """While this is open, the compiler calls the library for pooling's way back."""
    from torch._inductor import decomposition, lowering

    operator = aten.max_pool2d_with_indices_backward.default
    library = lowering.fallback_handler(operator, add_to_fallback_set=False)
    with (
        patch.dict(lowering.lowerings, {operator: library}),
        patch.dict(decomposition.decompositions),
    ):
        decomposition.decompositions.pop(operator, None)
        yield


COMPARED: dict[Any, Callable[..., Any]] = {aten.max_pool2d_with_indices.default: forward}
