"""Augmentation of training images: pad, crop at random, mirror every second; a batch at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

PADDING = 4


@dataclass(frozen=True)
class Augmentation:
    """Where each of some images is cropped out of its padded self, and whether it is mirrored."""

    top: Tensor
    left: Tensor
    mirrored: Tensor

    @classmethod
    def draw(cls, images: int, random: torch.Generator) -> Augmentation:
        top, left = torch.randint(0, 2 * PADDING + 1, (2, images), generator=random).unbind()
        return cls(top, left, torch.rand(images, generator=random) < 0.5)

    @classmethod
    def joined(cls, several: Sequence[Augmentation]) -> Augmentation:
        """Of one group of images after another."""
        drawn = ((one.top, one.left, one.mirrored) for one in several)
        return cls(*(torch.cat(parts) for parts in zip(*drawn, strict=True)))

    def part(self, start: int, stop: int) -> Augmentation:
        """What was drawn for images ``start`` to ``stop``."""
        return Augmentation(self.top[start:stop], self.left[start:stop], self.mirrored[start:stop])

    def apply(self, images: Tensor) -> Tensor:
        """The images, padded with zeros, cropped and mirrored."""
        count, channels, height, width = images.shape
        padded = images.new_zeros(2, count, channels, height + 2 * PADDING, width + 2 * PADDING)
        inner = padded[..., PADDING:-PADDING, PADDING:-PADDING]
        inner[0], inner[1] = images, images.flip(-1)
        # A row of a crop is `width` neighbours in flat memory: copied as one, which is many times
        # faster than gathering pixels. Mirroring mirrors the place of the crop too.
        line, plane = padded.shape[-1], padded[0, 0, 0].numel()
        image = torch.arange(count) + count * self.mirrored
        left = torch.where(self.mirrored, 2 * PADDING - self.left, self.left)
        corners = image * (channels * plane) + self.top * line + left
        rows = torch.arange(channels)[:, None] * plane + torch.arange(height) * line
        starts = (corners[:, None] + rows.flatten()).flatten().to(images.device)
        return padded.flatten().unfold(0, width, 1).index_select(0, starts).view(images.shape)
