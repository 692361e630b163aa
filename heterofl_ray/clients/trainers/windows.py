"""The windows that a convolution lays over a batch of images, as rows of a matrix.

A product of few columns is slow: with 4 output channels it runs at a sixth of what it does with 16.
So where channels are few, a row serves several windows side by side: it is their common
neighbourhood, K high and K + P - 1 wide for P of them, and the weights become a band of P copies,
each moved on by a pixel. More is multiplied, by zeros, and still it takes a fifth of the time; and
the rows are fewer, since neighbours share them.

Images are [images, rows, columns, channels] here, kernels [K, K, in, out].
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from heterofl_ray.clients.trainers.sums import in_stages

NARROWEST = 16
"""Columns of a product from which on it is fast: two vectors of 8."""

FEW_TAPS = 9
"""Of one window, up to which plain sums beat matrix products."""


@dataclass(frozen=True)
class Windows:
    count: int
    height: int
    width: int
    channels: int
    kernel: int
    stride: int
    before: int
    """Zeros in front of the first row and column; behind the last are as many as are needed."""
    down: int
    across: int
    """Windows in a column, and in a row."""
    together: int = 1
    """Windows, side by side, that share a row of the taps."""

    def for_columns(self, columns: int) -> Windows:
        """The same for a product that has so many columns for each window."""
        wanted = -(-NARROWEST // columns)
        fitting = [n for n in range(1, wanted + 1) if self.across % n == 0]
        return replace(self, together=fitting[-1])

    @property
    def few(self) -> bool:
        """Whether taps are too few for a matrix product to be at its best: a first layer's are."""
        return self.channels * self.kernel**2 <= FEW_TAPS

    @property
    def span(self) -> int:
        """Pixels beside each other that a row of the taps has."""
        return (self.together - 1) * self.stride + self.kernel

    @property
    def columns(self) -> int:
        """Of the taps."""
        return self.kernel * self.span * self.channels

    @property
    def numel(self) -> int:
        """Of the taps."""
        return self.count * self.down * self.across // self.together * self.columns

    def views(self, images: Tensor) -> Tensor:
        """A view of the windows, row by row of pixels."""
        height, width = (self.stride * (n - 1) + self.kernel for n in (self.down, self.across))
        above = (self.before, height - self.before - self.height)
        beside = (self.before, width - self.before - self.width)
        # A row's pixels and their channels are one axis, so that loops over it are long.
        row = self.width * self.channels
        rows = images.contiguous().as_strided(
            (self.count, self.height, row), (self.height * row, row, 1)
        )
        padded = F.pad(rows, (*(side * self.channels for side in beside), *above)).contiguous()
        image, row, _ = padded.stride()
        step = self.channels * self.stride * self.together
        return padded.as_strided(
            (self.count, self.down, self.across // self.together, self.kernel,
             self.span * self.channels),
            (image, row * self.stride, step, row, 1),
        )  # fmt: skip

    def taps(self, images: Tensor) -> Tensor:
        """The windows as rows of a matrix."""
        copied = self.views(images).contiguous()
        # as a view of strides, so that a compiler copies window by window
        return copied.as_strided((copied.numel() // self.columns, self.columns), (self.columns, 1))

    def single_taps(self, images: Tensor) -> list[Tensor]:
        """The same one by one: [images, rows, columns, 1] each."""
        rows = self.views(images).unbind(3)
        return [tap for row in rows for tap in row.split(1, -1)]

    def product(self, images: Tensor, kernel: Tensor) -> Tensor:
        """[images, rows, columns, out] of the windows."""
        products = self.taps(images) @ self.band(kernel)
        return products.view(self.count, self.down, self.across, -1)

    def sum_of_few(self, images: Tensor, kernel: Tensor) -> Tensor:
        """The same without a product."""
        matrix = kernel.flatten(0, 2)
        # as a view of strides, so that a compiler writes the matrix down once
        written = matrix.contiguous().as_strided(matrix.shape, (matrix.shape[1], 1))
        terms = [tap * row for tap, row in zip(self.single_taps(images), written, strict=True)]
        summed: Tensor = functools.reduce(torch.add, terms)
        return summed

    def band(self, kernel: Tensor) -> Tensor:
        """The kernel for every window of a row, [K·span·in, together·out]."""
        if self.together == 1:
            return kernel.flatten(0, 2)
        moved = [
            F.pad(kernel, (0, 0, 0, 0, window * self.stride, self._beyond(window)))
            for window in range(self.together)
        ]
        return torch.stack(moved, 3).flatten(3).flatten(0, 2)

    def _beyond(self, window: int) -> int:
        """What a row of the taps has behind one of its windows."""
        return self.span - self.kernel - window * self.stride

    def kernel_gradient(self, images: Tensor, slopes: Tensor) -> Tensor:
        """[K, K, in, out], from the gradient of what the windows gave."""
        sides = (self.kernel, self.span, self.channels)
        if self.few:
            sums = [in_stages(tap * slopes, [0, 1, 2]) for tap in self.single_taps(images)]
            return torch.stack(sums).view(*sides, -1)
        band = self.taps(images).t() @ slopes.reshape(-1, self.together * slopes.shape[-1])
        parts = band.view(*sides, self.together, -1).unbind(3)
        moved = (
            part[:, window * self.stride : window * self.stride + self.kernel]
            for window, part in enumerate(parts)
        )
        return functools.reduce(torch.add, moved)

    def gathered(self, parts: Tensor) -> Tensor:
        """Each pixel's sum over the windows it was in, of [windows, K·K·in] parts for its place."""
        sides = (self.count, self.down, self.across, self.kernel, self.kernel, self.channels)
        by_place, total = parts.view(sides), None
        for row in range(self.kernel):
            for column in range(self.kernel):
                part = spread_out(by_place[..., row, column, :], self.stride)
                part = self._shifted(part, row - self.before, column - self.before)
                total = part if total is None else total + part
        assert total is not None
        return total

    def _shifted(self, part: Tensor, down: int, right: int) -> Tensor:
        """Moved within the images' sides; what leaves them is dropped, what is new is zero."""
        below, beside = self.height - down - part.shape[1], self.width - right - part.shape[2]
        return F.pad(part, (0, 0, right, beside, down, below))


def spread_out(images: Tensor, stride: int) -> Tensor:
    """With ``stride`` - 1 zeros between neighbours."""
    if stride == 1:
        return images
    for axis in (1, 2):
        shape = list(images.shape)
        shape[axis] = (shape[axis] - 1) * stride + 1
        zeros = images.new_zeros(shape)
        images = torch.slice_scatter(zeros, images, axis, 0, shape[axis], stride)
    return images
