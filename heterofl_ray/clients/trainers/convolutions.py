"""Convolutions as matrix products.

A federated client's steps are small: 10 images, and as few as 4 channels. At that size a library's
convolution spends its time on getting ready, and one matrix product over all pixels of the batch
is several times faster. With K the kernel's side, a batch x of N images becomes

    taps(x)      [in·K·K, N·H·W]     each pixel's neighbourhood as a column
    output     = weight [out, in·K·K] @ taps(x)
    d weight   = d output [out, N·H·W] @ taps(x)ᵀ
    d input    = turned weight [in, out·K·K] @ taps(d output, spread out by the stride)

Used as replacements while a training step is traced; a compiler then joins the making of the taps
with the layers around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

aten = torch.ops.aten


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
    if not simple(weight, stride, padding, dilation, transposed, groups):
        return NotImplemented
    edge = (padding[0],) * 4
    columns, height, width = taps(x, weight.shape[-1], stride[0], edge)
    out = weight.flatten(1) @ columns
    if bias is not None:
        out = out + bias[:, None]
    return out.view(len(weight), len(x), height, width).transpose(0, 1)


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
    if not simple(weight, stride, padding, dilation, transposed, groups):
        return NotImplemented
    kernel, step, pad = weight.shape[-1], stride[0], padding[0]
    rows = d_output.transpose(0, 1).flatten(1)
    d_x = d_weight = d_bias = None
    if wanted[0]:
        height, width = x.shape[2:]
        spread = spread_out(d_output, step)
        before = kernel - 1 - pad
        below = height + pad - spread.shape[2]
        right = width + pad - spread.shape[3]
        columns, _, _ = taps(spread, kernel, 1, (before, right, before, below))
        turned = weight.flip(2, 3).transpose(0, 1).flatten(1)
        d_x = (turned @ columns).view(x.shape[1], len(x), height, width).transpose(0, 1)
    if wanted[1]:
        columns, _, _ = taps(x, kernel, step, (pad,) * 4)
        d_weight = (rows @ columns.t()).view_as(weight)
    if wanted[2]:
        d_bias = rows.sum(1)
    return d_x, d_weight, d_bias


def simple(
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    groups: int,
) -> bool:
    """Whether it is an ordinary square convolution; others stay with the library."""
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


def taps(
    x: Tensor, kernel: int, stride: int, edge: tuple[int, int, int, int]
) -> tuple[Tensor, int, int]:
    """The neighbourhoods as columns, with zeros beyond the ``edge``s; the output's sides."""
    padded = F.pad(x.transpose(0, 1).contiguous(), edge)
    channels, count, high, wide = padded.shape
    height, width = (high - kernel) // stride + 1, (wide - kernel) // stride + 1
    channel, image, row, pixel = padded.stride()
    views = padded.as_strided(
        (channels, kernel, kernel, count, height, width),
        (channel, row, pixel, image, row * stride, pixel * stride),
    )
    return views.reshape(channels * kernel**2, count * height * width), height, width


def spread_out(x: Tensor, stride: int) -> Tensor:
    """With ``stride`` - 1 zeros between neighbours."""
    if stride == 1:
        return x
    for axis in (2, 3):
        shape = list(x.shape)
        shape[axis] = (shape[axis] - 1) * stride + 1
        x = torch.slice_scatter(x.new_zeros(shape), x, axis, 0, shape[axis], stride)
    return x


AS_PRODUCTS: dict[Any, Callable[..., Any]] = {
    aten.convolution.default: forward,
    aten.convolution_backward.default: backward,
}
