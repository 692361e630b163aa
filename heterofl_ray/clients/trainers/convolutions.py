"""Convolutions as matrix products.

A federated client's steps are small: 10 images, and as few as 4 channels. At that size a library's
convolution spends its time on getting ready, and one matrix product over all pixels of the batch
is several times faster. With K the kernel's side, a batch x of N images becomes

    taps(x)      [in·K·K, pixels]    each pixel's neighbourhood as a column
    output     = weight [out, in·K·K] @ taps(x)
    d weight   = d output [out, pixels] @ taps(x)ᵀ
    d input    = weightᵀ [in·K·K, out] @ d output, each column's parts added to their pixels

Where output and input have the same sides, all images of a channel lie one behind the other on a
`Canvas` with shared margins of zeros: a neighbour is then the same number of places away for every
pixel, and taps are shifted copies of long rows.

Used as replacements while a training step is traced; a compiler then joins the making of the taps
with the layers around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

aten = torch.ops.aten

LARGEST_TAPS = 600 * 1024
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
    if not simple(x, weight, stride, padding, dilation, transposed, groups):
        return NotImplemented
    shape = Neighbourhoods.of(x, weight, stride[0], padding[0])
    out = shape.images(weight.flatten(1) @ shape.taps(x))
    if bias is not None:
        out = out + bias[:, None, None, None]
    return out.transpose(0, 1)


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
    if not simple(x, weight, stride, padding, dilation, transposed, groups):
        return NotImplemented
    shape = Neighbourhoods.of(x, weight, stride[0], padding[0])
    rows = shape.rows(d_output.transpose(0, 1))
    d_x = d_weight = d_bias = None
    if wanted[0]:
        d_x = shape.gathered(weight.flatten(1).t() @ rows).transpose(0, 1)
    if wanted[1]:
        d_weight = (shape.within(rows) @ shape.taps(x).t()).view_as(weight)
    if wanted[2]:
        d_bias = d_output.sum((0, 2, 3))
    return d_x, d_weight, d_bias


def simple(
    x: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    groups: int,
) -> bool:
    """Whether it is an ordinary square convolution, and small; others stay with the library."""
    return (
        weight.dim() == 4
        and x.numel() * weight.shape[2] ** 2 * x.element_size() <= LARGEST_TAPS
        and weight.shape[2] == weight.shape[3]
        and len({*stride}) == 1
        and len({*padding}) == 1
        and padding[0] < weight.shape[2]
        and {*dilation} == {1}
        and not transposed
        and groups == 1
    )


@dataclass(frozen=True)
class Neighbourhoods:
    """The pixels of a batch and their neighbourhoods, for one convolution."""

    channels: int
    count: int
    height: int
    width: int
    kernel: int
    stride: int
    pad: int

    @classmethod
    def of(cls, x: Tensor, weight: Tensor, stride: int, pad: int) -> Neighbourhoods:
        count, channels, height, width = x.shape
        kernel = weight.shape[-1]
        same = stride == 1 and kernel == 2 * pad + 1
        kind = Canvas if same else Neighbourhoods
        return kind(channels, count, height, width, kernel, stride, pad)

    @property
    def out_height(self) -> int:
        return (self.height + 2 * self.pad - self.kernel) // self.stride + 1

    @property
    def out_width(self) -> int:
        return (self.width + 2 * self.pad - self.kernel) // self.stride + 1

    def rows(self, d_output: Tensor) -> Tensor:
        """[channels, places] of [channels, images, rows, columns], the order of `taps`."""
        return d_output.flatten(1)

    def within(self, rows: Tensor) -> Tensor:
        """The places of `rows` that `taps` has columns for."""
        return rows

    def images(self, pixels: Tensor) -> Tensor:
        """[channels, images, rows, columns] of one number for each column of `taps`."""
        return pixels.view(len(pixels), self.count, self.out_height, self.out_width)

    def taps(self, x: Tensor) -> Tensor:
        """Each output pixel's neighbourhood in ``x`` as a column."""
        padded = F.pad(x.transpose(0, 1).contiguous(), (self.pad,) * 4)
        channel, image, row, pixel = padded.stride()
        views = padded.as_strided(
            (self.channels, self.kernel, self.kernel, self.count, self.out_height, self.out_width),
            (channel, row, pixel, image, row * self.stride, pixel * self.stride),
        )
        return views.reshape(self.channels * self.kernel**2, -1)

    def gathered(self, columns: Tensor) -> Tensor:
        """The reverse of `taps`: each input pixel's sum over the neighbourhoods it was in."""
        parts = columns.view(self.channels, self.kernel, self.kernel, -1)
        total = None
        for row in range(self.kernel):
            for column in range(self.kernel):
                part = parts[:, row, column].view(
                    self.channels, self.count, self.out_height, self.out_width
                )
                part = spread_out(part, self.stride)
                below = self.height + 2 * self.pad - row - part.shape[2]
                right = self.width + 2 * self.pad - column - part.shape[3]
                part = F.pad(part, (column, right, row, below))
                total = part if total is None else total + part
        assert total is not None
        pad = self.pad
        return total[:, :, pad : pad + self.height, pad : pad + self.width]


class Canvas(Neighbourhoods):
    """For a convolution that keeps the sides: images in rows with margins they share."""

    @property
    def row(self) -> int:
        """Places from a pixel to the one below."""
        return self.width + self.pad

    @property
    def length(self) -> int:
        return self.count * (self.height + self.pad) * self.row

    @property
    def reach(self) -> int:
        """Places to the farthest neighbour; as many zeros lie before and behind all images."""
        return self.pad * (self.row + 1)

    def rows(self, d_output: Tensor) -> Tensor:
        margins = F.pad(d_output, (0, self.pad, 0, self.pad)).flatten(1)
        return F.pad(margins, (self.reach, self.reach))

    def within(self, rows: Tensor) -> Tensor:
        return rows[:, self.reach : self.reach + self.length]

    def images(self, pixels: Tensor) -> Tensor:
        sides = (self.height + self.pad, self.row)
        return pixels.view(len(pixels), self.count, *sides)[..., : self.height, : self.width]

    def taps(self, x: Tensor) -> Tensor:
        views = (
            self.rows(x.transpose(0, 1))
            .contiguous()
            .as_strided(
                (self.channels, self.kernel, self.kernel, self.length),
                (self.length + 2 * self.reach, self.row, 1, 1),
            )
        )
        return views.reshape(self.channels * self.kernel**2, self.length)

    def gathered(self, columns: Tensor) -> Tensor:
        parts = columns.view(self.channels, self.kernel, self.kernel, -1)
        total = None
        for down in range(self.kernel):
            for right in range(self.kernel):
                start = 2 * self.reach - down * self.row - right
                part = parts[:, down, right, start : start + self.length]
                total = part if total is None else total + part
        assert total is not None
        return self.images(total)


def spread_out(x: Tensor, stride: int) -> Tensor:
    """With ``stride`` - 1 zeros between neighbours."""
    if stride == 1:
        return x
    for axis in (2, 3):
        shape = list(x.shape)
        shape[axis] = (shape[axis] - 1) * stride + 1
        x = torch.slice_scatter(x.new_zeros(shape), x, axis, 0, shape[axis], stride)
    return x


def variance_and_mean(
    x: Tensor,
    dim: list[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Any:
    """In two plain passes, which compile to plain loops; for batch norm's biased variance."""
    if correction != 0 or dim is None:
        return NotImplemented
    mean = x.mean(dim, keepdim=True)
    variance = (x - mean).square().mean(dim, keepdim=True)
    return (variance, mean) if keepdim else (variance.squeeze(dim), mean.squeeze(dim))


AS_PRODUCTS: dict[Any, Callable[..., Any]] = {
    aten.convolution.default: forward,
    aten.convolution_backward.default: backward,
    aten.var_mean.correction: variance_and_mean,
}
