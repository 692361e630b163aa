"""Convolutions as matrix products.

A federated client's steps are small: 10 images, and as few as 4 channels. At that size a library's
convolution spends its time on getting ready, and one matrix product over all pixels of the batch
is several times faster. With K the kernel's side, a batch x of N images becomes

    taps(x)      [pixels, K·K·in]    each pixel's neighbourhood as a row
    output     = taps(x) @ weight [K·K·in, out]
    d weight   = taps(x)ᵀ @ d output [pixels, out]
    d input    = d output @ weightᵀ [out, K·K·in], each row's parts added to their pixels

A pixel's channels lie side by side, which is what a compiler makes fast loops of whatever an
image's sides are. Where they are too few to fill a vector, adding parts up is slow, and

    d input    = taps(d output) @ turned(weight)

Used as replacements while a training step is traced; a compiler then joins the making of the taps
with the layers around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from heterofl_ray.clients.trainers.lanes import VECTOR
from heterofl_ray.clients.trainers.windows import Windows

aten = torch.ops.aten

LARGEST_TAPS = 800 * 1024
"""Bytes of taps up to which this is worth it; larger ones do not stay in a core's cache."""


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
    if not is_small(windows, x):
        return NotImplemented
    way = windows.sum_of_few if windows.few else windows.product
    out = way(pixels(x), as_kernel(weight))
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
    behind = back(windows, weight) if windows.channels < VECTOR else None
    if not is_small(windows, x) or (wanted[0] and behind and not is_small(behind, x)):
        return NotImplemented
    slopes = pixels(d_output)
    d_x = d_weight = d_bias = None
    if wanted[0]:
        if behind:
            cells = behind.product(slopes, turned(weight, stride[0], padding[0]))
            found = unfolded(cells, stride[0])[:, : windows.height, : windows.width]
        else:
            matrix = as_kernel(weight).flatten(0, 2)
            found = windows.gathered(slopes.reshape(-1, len(weight)) @ matrix.t())
        d_x = found.permute(0, 3, 1, 2)
    if wanted[1]:
        d_kernel = windows.kernel_gradient(pixels(x), slopes)
        d_weight = d_kernel.permute(3, 2, 0, 1).contiguous()
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
        and weight.shape[2] == weight.shape[3]
        and len({*stride}) == 1
        and len({*padding}) == 1
        and padding[0] < weight.shape[2]
        and {*dilation} == {1}
        and not transposed
        and groups == 1
    )


def is_small(windows: Windows, x: Tensor) -> bool:
    return windows.numel * x.element_size() <= LARGEST_TAPS


def pixels(x: Tensor) -> Tensor:
    """[images, rows, columns, channels] of a batch."""
    return x.permute(0, 2, 3, 1)


def as_kernel(weight: Tensor) -> Tensor:
    """[K, K, in, out] of [out, in, K, K]."""
    return weight.permute(2, 3, 1, 0)


def onward(x: Tensor, weight: Tensor, stride: int, pad: int) -> Windows:
    """What a convolution's output is made of."""
    count, channels, height, width = x.shape
    kernel = weight.shape[-1]
    down, across = ((side + 2 * pad - kernel) // stride + 1 for side in (height, width))
    windows = Windows(count, height, width, channels, kernel, stride, pad, down, across)
    return windows if windows.few else windows.for_columns(len(weight))


def back(windows: Windows, weight: Tensor) -> Windows:
    """What the gradient of its input is made of: windows over the gradient of its output.

    With a stride, each of them serves a cell of stride by stride pixels.
    """
    stride = windows.stride
    first, last = reach(windows.kernel, stride, windows.before)
    cells = (-(-side // stride) for side in (windows.height, windows.width))
    given = (windows.count, windows.down, windows.across, len(weight))
    behind = Windows(*given, last - first + 1, 1, -first, *cells)
    return behind.for_columns(stride**2 * windows.channels)


def reach(kernel: int, stride: int, pad: int) -> tuple[int, int]:
    """The first and the last output pixel, from a cell's place on, that the cell is part of."""
    return -((kernel - 1 - pad) // stride), (stride - 1 + pad) // stride


def turned(weight: Tensor, stride: int, pad: int) -> Tensor:
    """The kernel of the way back, [J, J, out, stride·stride·in].

    Pixel a of a cell meets output pixel j at the tap a + pad - stride·j, if there is one.
    """
    kernel = weight.shape[-1]
    first, last = reach(kernel, stride, pad)
    length = stride * (last - first) + 1
    starts = [kernel - 1 - a - pad + stride * first for a in range(stride)]
    zeros = max(0, -starts[-1]), max(0, starts[0] + length - kernel)
    flipped = F.pad(weight.flip(2, 3), zeros * 2)
    taps = [slice(zeros[0] + start, zeros[0] + start + length, stride) for start in starts]
    parts = [flipped[:, :, row, column] for row in taps for column in taps]
    return torch.stack(parts, 2).permute(3, 4, 0, 2, 1).flatten(3)


def unfolded(cells: Tensor, stride: int) -> Tensor:
    """[images, rows, columns, channels] of cells of stride by stride pixels."""
    if stride == 1:
        return cells
    count, down, across, _ = cells.shape
    parts = cells.view(count, down, across, stride, stride, -1).permute(0, 1, 3, 2, 4, 5)
    return parts.reshape(count, down * stride, across * stride, -1)


AS_PRODUCTS: dict[Any, Callable[..., Any]] = {
    aten.convolution.default: forward,
    aten.convolution_backward.default: backward,
}
