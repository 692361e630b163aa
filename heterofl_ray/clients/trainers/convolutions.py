"""Convolutions as matrix products.

A federated client's steps are small: 10 images, and as few as 4 channels. At that size a library's
convolution spends its time on getting ready, and one matrix product over all pixels of the batch
is several times faster. With K the kernel's side, a batch x of N images becomes

    taps(x)      [pixels, K·K·in]    each pixel's neighbourhood as a row
    output     = taps(x) @ weight [K·K·in, out]
    d weight   = taps(x)ᵀ @ d output [pixels, out]
    d input    = d output @ weightᵀ [out, K·K·in], each row's parts added to their pixels

A pixel's channels lie side by side, which is what a compiler makes fast loops of whatever an
image's sides are.

A product of few columns is slow: with 4 output channels it runs at a sixth of what it does with 16.
So where channels are few, a row of the taps serves P pixels side by side: it is their common
neighbourhood, K high and K + P - 1 wide, and the weights become a band of P copies, each moved on
by a pixel. More is multiplied, by zeros, and still it takes a fifth of the time; and the taps are
fewer, since neighbours share them.

Used as replacements while a training step is traced; a compiler then joins the making of the taps
with the layers around it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from heterofl_ray.clients.trainers.sums import in_stages

aten = torch.ops.aten

LARGEST_TAPS = 800 * 1024
"""Bytes of taps up to which this is worth it; larger ones do not stay in a core's cache."""

NARROWEST = 16
"""Columns of a product from which on it is fast: two vectors of 8."""

FEW_TAPS = 9
"""Of one output pixel, up to which plain sums beat matrix products."""


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
    shape = simple(x, weight, stride, padding, dilation, transposed, groups)
    if shape is None:
        return NotImplemented
    out = shape.product(x, weight)
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
    shape = simple(x, weight, stride, padding, dilation, transposed, groups)
    if shape is None:
        return NotImplemented
    rows = d_output.permute(0, 2, 3, 1).reshape(-1, len(weight))
    d_x = d_weight = d_bias = None
    if wanted[0]:
        d_x = shape.gathered(rows @ as_matrix(weight).t()).permute(0, 3, 1, 2)
    if wanted[1]:
        d_weight = shape.weights(x, rows).permute(3, 2, 0, 1).contiguous()
    if wanted[2]:
        d_bias = rows.sum(0)
    return d_x, d_weight, d_bias


def as_matrix(weight: Tensor) -> Tensor:
    """[K·K·in, out] of [out, in, K, K]."""
    return weight.permute(2, 3, 1, 0).reshape(-1, len(weight))


def simple(
    x: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    groups: int,
) -> Neighbourhoods | None:
    """An ordinary square convolution that is small; others stay with the library."""
    ordinary = (
        weight.dim() == 4
        and weight.shape[2] == weight.shape[3]
        and len({*stride}) == 1
        and len({*padding}) == 1
        and padding[0] < weight.shape[2]
        and {*dilation} == {1}
        and not transposed
        and groups == 1
    )
    if not ordinary:
        return None
    shape = Neighbourhoods.of(x, weight, stride[0], padding[0])
    return shape if shape.numel * x.element_size() <= LARGEST_TAPS else None


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
    together: int
    """Output pixels, side by side, that share a row of the taps."""

    @classmethod
    def of(cls, x: Tensor, weight: Tensor, stride: int, pad: int) -> Neighbourhoods:
        count, channels, height, width = x.shape
        alone = cls(channels, count, height, width, weight.shape[-1], stride, pad, 1)
        if alone.few:
            return alone
        wanted = -(-NARROWEST // len(weight))
        fitting = [n for n in range(1, wanted + 1) if alone.out_width % n == 0]
        return replace(alone, together=fitting[-1])

    @property
    def out_height(self) -> int:
        return (self.height + 2 * self.pad - self.kernel) // self.stride + 1

    @property
    def out_width(self) -> int:
        return (self.width + 2 * self.pad - self.kernel) // self.stride + 1

    @property
    def span(self) -> int:
        """Input pixels beside each other that a row of the taps has."""
        return (self.together - 1) * self.stride + self.kernel

    @property
    def numel(self) -> int:
        """Of the taps."""
        rows = self.count * self.out_height * self.out_width // self.together
        return rows * self.kernel * self.span * self.channels

    def images(self, pixels: Tensor) -> Tensor:
        """[images, rows, columns, channels] of what there is for each pixel."""
        return pixels.view(self.count, self.out_height, self.out_width, -1)

    def neighbours(self, x: Tensor) -> Tensor:
        """A view of the output pixels' neighbourhoods in ``x``, row by row."""
        margins = (0, 0, self.pad, self.pad, self.pad, self.pad)
        padded = F.pad(x.permute(0, 2, 3, 1), margins).contiguous()
        image, row, pixel, _ = padded.stride()
        columns = self.out_width // self.together
        return padded.as_strided(
            (self.count, self.out_height, columns, self.kernel, self.span * pixel),
            (image, row * self.stride, pixel * self.stride * self.together, row, 1),
        )

    def taps(self, x: Tensor) -> Tensor:
        """The output pixels' neighbourhoods in ``x`` as rows."""
        return self.neighbours(x).reshape(-1, self.kernel * self.span * self.channels)

    def single_taps(self, x: Tensor) -> list[Tensor]:
        """The same one by one: [images, rows, columns, 1] each."""
        rows = self.neighbours(x).unbind(3)
        return [tap for row in rows for tap in row.split(1, -1)]

    @property
    def few(self) -> bool:
        """Whether taps are too few for a matrix product to be at its best: a first layer's are."""
        return self.channels * self.kernel**2 <= FEW_TAPS

    def product(self, x: Tensor, weight: Tensor) -> Tensor:
        """The output's [images, rows, columns, channels]."""
        if not self.few:
            return self.images(self.taps(x) @ self.band(weight))
        matrix = as_matrix(weight)
        # as a view of strides, so that a compiler writes the matrix down once
        written = matrix.contiguous().as_strided(matrix.shape, (matrix.shape[1], 1))
        terms = [tap * row for tap, row in zip(self.single_taps(x), written, strict=True)]
        summed: Tensor = functools.reduce(torch.add, terms)
        return summed

    def band(self, weight: Tensor) -> Tensor:
        """The weights for every pixel of a row, [K·span·in, together·out]."""
        if self.together == 1:
            return as_matrix(weight)
        alone = weight.permute(2, 3, 1, 0)  # [K, K, in, out]
        moved = [
            F.pad(alone, (0, 0, 0, 0, pixel * self.stride, self._beyond(pixel)))
            for pixel in range(self.together)
        ]
        return torch.stack(moved, 3).flatten(3).flatten(0, 2)

    def weights(self, x: Tensor, rows: Tensor) -> Tensor:
        """The gradient of the [K, K, in, out] weights, from the output's [pixels, out]."""
        sides = (self.kernel, self.span, self.channels)
        if not self.few:
            band = self.taps(x).t() @ rows.reshape(-1, self.together * rows.shape[1])
            parts = band.view(*sides, self.together, -1).unbind(3)
            first = self.stride
            return functools.reduce(
                torch.add,
                (part[:, n * first : n * first + self.kernel] for n, part in enumerate(parts)),
            )
        d_output = self.images(rows)
        sums = [in_stages(tap * d_output, [0, 1, 2]) for tap in self.single_taps(x)]
        return torch.stack(sums).view(*sides, -1)

    def _beyond(self, pixel: int) -> int:
        """What a row of the taps has behind the neighbourhood of one of its pixels."""
        return self.span - self.kernel - pixel * self.stride

    def gathered(self, rows: Tensor) -> Tensor:
        """The reverse of `taps`: each input pixel's sum over the neighbourhoods it was in."""
        parts = self.images(rows).unflatten(-1, (self.kernel, self.kernel, self.channels))
        total = None
        for row in range(self.kernel):
            for column in range(self.kernel):
                part = spread_out(parts[..., row, column, :], self.stride)
                part = self._shifted(part, row - self.pad, column - self.pad)
                total = part if total is None else total + part
        assert total is not None
        return total

    def _shifted(self, part: Tensor, down: int, right: int) -> Tensor:
        """Moved within the input's sides; what leaves them is dropped, what is new is zero."""
        below, beside = self.height - down - part.shape[1], self.width - right - part.shape[2]
        return F.pad(part, (0, 0, right, beside, down, below))


def spread_out(x: Tensor, stride: int) -> Tensor:
    """With ``stride`` - 1 zeros between neighbours."""
    if stride == 1:
        return x
    for axis in (1, 2):
        shape = list(x.shape)
        shape[axis] = (shape[axis] - 1) * stride + 1
        x = torch.slice_scatter(x.new_zeros(shape), x, axis, 0, shape[axis], stride)
    return x


AS_PRODUCTS: dict[Any, Callable[..., Any]] = {
    aten.convolution.default: forward,
    aten.convolution_backward.default: backward,
}
