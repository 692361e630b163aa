"""Images of few channels in whole vectors.

A pixel's channels lie side by side, and a compiled loop runs over them a vector at a time. Where
they are fewer than a vector's lanes, every pixel would be half a vector, loaded and stored by
detours. So neighbouring pixels are taken together until they fill one, and what there is for each
channel is repeated for each of them.

Used as replacements while a training step is traced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

VECTOR = 8
"""Lanes of a vector: the numbers of 32 bits in a register of AVX2."""


@dataclass(frozen=True)
class Lanes:
    """A batch of images as rows that fill vectors: [images, rows, lanes]."""

    count: int
    channels: int
    height: int
    width: int
    together: int
    """Pixels in a row."""

    @classmethod
    def of(cls, x: Tensor) -> Lanes | None:
        """Of a batch whose pixels' channels lie side by side; None of any other tensor."""
        if x.dim() != 4 or not x.numel():
            return None
        if not x.is_contiguous(memory_format=torch.channels_last):
            return None
        count, channels, height, width = x.shape
        filling = VECTOR // channels if VECTOR % channels == 0 else 1
        together = filling if height * width % filling == 0 else 1
        return cls(count, channels, height, width, together)

    @property
    def pixels(self) -> int:
        return self.count * self.height * self.width

    # Views of strides: a compiler writes down what they are of, and loops over it as it lies.

    def rows(self, x: Tensor) -> Tensor:
        lanes, image = self.together * self.channels, self.height * self.width * self.channels
        return x.as_strided((self.count, image // lanes, lanes), (image, lanes, 1))

    def images(self, rows: Tensor) -> Tensor:
        shape = (self.count, self.channels, self.height, self.width)
        row = self.width * self.channels
        return rows.contiguous().as_strided(shape, (self.height * row, 1, row, self.channels))

    def repeated(self, values: Tensor) -> Tensor:
        """One for each lane, of one for each channel."""
        lanes = values.repeat(self.together) if self.together > 1 else values
        return lanes.contiguous().as_strided(lanes.shape, (1,))

    def sums(self, rows: Tensor) -> Tensor:
        """Of each channel: over an image first, which stays in registers, then over images."""
        lanes = rows.sum(1).sum(0)
        return lanes.view(self.together, self.channels).sum(0) if self.together > 1 else lanes


def in_lanes(operator: Any) -> Callable[..., Any]:
    """An operator that takes number by number, for images alone and with single numbers."""

    def apply(*arguments: Any, **options: Any) -> Any:
        images = [value for value in arguments if _is_many(value)]
        lanes = [Lanes.of(value) for value in images]
        first = lanes[0] if lanes else None
        if first is None or any(other != first for other in lanes):
            return NotImplemented
        rows = [first.rows(value) if _is_many(value) else value for value in arguments]
        return first.images(operator(*rows, **options))

    return apply


def _is_many(value: object) -> bool:
    return isinstance(value, Tensor) and value.dim() > 0


IN_LANES: dict[Any, Callable[..., Any]] = {
    operator: in_lanes(operator)
    for operator in (
        aten.add.Tensor,
        aten.div.Tensor,
        aten.relu.default,
        aten.threshold_backward.default,
    )
}
