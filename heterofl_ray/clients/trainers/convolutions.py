"""Convolutions by native code of our own.

A federated client's steps are small: 10 images, and as few as 4 channels. At that size a library's
convolution spends its time on getting ready; ours (`native/convolution.cpp`) is up to four times
as fast. A pixel's channels lie side by side. With x a batch of images,

    output     = convolve(x, kernel)
    d kernel   = kernel_slopes(x, d output)
    d input    = convolve(d output, turned(kernel))

Used as replacements while a training step is traced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from heterofl_ray.clients.trainers.native.operators import OPERATORS

aten = torch.ops.aten

MOST_PRODUCTS = 2**25
"""Of a batch's convolution, up to which this is worth it; the library is at its best with more."""


@dataclass(frozen=True)
class Windows:
    """Over a batch of images."""

    images: int
    kernel: int
    stride: int
    before: int
    """Zeros in front of the first row and column; behind the last are as many as are needed."""
    down: int
    across: int
    """Windows in a column, and in a row."""

    def are_few(self, weight: Tensor) -> bool:
        """Whether this is worth it for them. (None at all is not for native code.)"""
        products = self.images * self.down * self.across * weight.numel()
        return 0 < products <= MOST_PRODUCTS

    def convolve(self, images: Tensor, kernel: Tensor) -> Tensor:
        """[images, rows, columns, out], with a kernel of [K, K, in, out]."""
        given = images.contiguous(), kernel.contiguous()
        found: Tensor = OPERATORS.convolve(*given, self.stride, self.before, self.down, self.across)
        return found

    def kernel_slopes(self, images: Tensor, slopes: Tensor) -> Tensor:
        """[K, K, in, out], from the gradient of what the windows gave."""
        given = images.contiguous(), slopes.contiguous()
        found: Tensor = OPERATORS.kernel_slopes(*given, self.kernel, self.stride, self.before)
        return found


def forward(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    if not is_ordinary(weight, stride, padding, dilation, transposed, groups):
        return NotImplemented
    windows = onward(x, weight, stride[0], padding[0])
    if not windows.are_few(weight):
        return NotImplemented
    out = windows.convolve(pixels(x), as_kernel(weight))
    if bias is not None:
        out = out + bias
    return out.permute(0, 3, 1, 2)


def backward(
    d_output: Tensor,
    x: Tensor,
    weight: Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    wanted: Sequence[bool],
) -> Any:
    if not is_ordinary(weight, stride, padding, dilation, transposed, groups):
        return NotImplemented
    windows = onward(x, weight, stride[0], padding[0])
    if not windows.are_few(weight):
        return NotImplemented
    slopes, images = pixels(d_output), pixels(x)
    _, height, width, _ = images.shape
    d_x = d_weight = d_bias = None
    if wanted[0]:
        kernel = turned(weight, stride[0], padding[0])
        cells = back(images, weight, stride[0], padding[0]).convolve(slopes, kernel)
        found = unfolded(cells, stride[0])[:, :height, :width]
        d_x = found.permute(0, 3, 1, 2)
    if wanted[1]:
        d_kernel = windows.kernel_slopes(images, slopes)
        d_weight = d_kernel.permute(3, 2, 0, 1)
    if wanted[2]:
        d_bias = slopes.flatten(0, 2).sum(0)
    return d_x, d_weight, d_bias


def is_ordinary(
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    groups: int,
) -> bool:
    """A plain square convolution; others stay with the library."""
    return (
        weight.dim() == 4
        and weight.dtype in (torch.float32, torch.float64)
        and weight.shape[2] == weight.shape[3]
        and len({*stride}) == 1
        and len({*padding}) == 1
        and padding[0] < weight.shape[2]
        and {*dilation} == {1}
        and not transposed
        and groups == 1
    )


def pixels(x: Tensor) -> Tensor:
    """[images, rows, columns, channels] of a batch."""
    return x.permute(0, 2, 3, 1)


def as_kernel(weight: Tensor) -> Tensor:
    """[K, K, in, out] of [out, in, K, K]."""
    return weight.permute(2, 3, 1, 0)


def laid_out(weight: Tensor) -> Tensor:
    """A convolution's weight with its numbers in the order in which native code reads them.

    The same tensor otherwise. A step that has them so neither sorts them nor their gradients.
    """
    return as_kernel(weight).contiguous().permute(3, 2, 0, 1) if weight.dim() == 4 else weight


def onward(x: Tensor, weight: Tensor, stride: int, pad: int) -> Windows:
    """What a convolution's output is made of."""
    kernel = weight.shape[-1]
    down, across = ((side + 2 * pad - kernel) // stride + 1 for side in x.shape[2:])
    return Windows(len(x), kernel, stride, pad, down, across)


def back(images: Tensor, weight: Tensor, stride: int, pad: int) -> Windows:
    """What the gradient of its input is made of: windows over the gradient of its output.

    With a stride, each of them serves a cell of stride by stride pixels.
    """
    first, last = reach(weight.shape[-1], stride, pad)
    down, across = (-(-side // stride) for side in images.shape[1:3])
    return Windows(len(images), last - first + 1, 1, -first, down, across)


def reach(kernel: int, stride: int, pad: int) -> tuple[int, int]:
    """The first and the last output pixel, from a cell's place on, that the cell is part of."""
    return -((kernel - 1 - pad) // stride), (stride - 1 + pad) // stride


def turned(weight: Tensor, stride: int, pad: int) -> Tensor:
    """The kernel of the way back, [J, J, out, stride·stride·in].

    Pixel a of a cell meets output pixel j at the tap a + pad - stride·j, if there is one.
    """
    if stride == 1:
        return weight.flip(2, 3).permute(2, 3, 0, 1)
    kernel = weight.shape[-1]
    first, last = reach(kernel, stride, pad)
    taps = [[a + pad - stride * j for a in range(stride)] for j in range(first, last + 1)]
    none = torch.zeros_like(weight[:, :, 0, 0])

    def cell(rows: Sequence[int], columns: Sequence[int]) -> Tensor:
        met = [(row, column) for row in rows for column in columns]
        parts = [weight[:, :, *tap] if {*tap} <= {*range(kernel)} else none for tap in met]
        return torch.stack(parts, 1).flatten(1)

    return torch.stack([torch.stack([cell(rows, columns) for columns in taps]) for rows in taps])


def unfolded(cells: Tensor, stride: int) -> Tensor:
    """[images, rows, columns, channels] of cells of stride by stride pixels."""
    if stride == 1:
        return cells
    count, down, across, _ = cells.shape
    parts = cells.view(count, down, across, stride, stride, -1).permute(0, 1, 3, 2, 4, 5)
    return parts.reshape(count, down * stride, across * stride, -1)


BY_NATIVE_CODE: dict[Any, Callable[..., Any]] = {
    aten.convolution.default: forward,
    aten.convolution_backward.default: backward,
}
