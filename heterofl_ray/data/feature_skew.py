"""Feature skew: every client's sensor is turned by an angle and noisy to a degree of its own.

It belongs to the client, so all that is computed from a client's own images sees it: training and
the static batch norm's statistics. Test images are everyone's and stay as they are, for Local
scores too. It combines with any partition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from heterofl_ray.errors import ConfigError
from heterofl_ray.randomness import Streams
from heterofl_ray.setting_groups import FeatureSkewConfig


@dataclass(frozen=True)
class FeatureSkew:
    """What one client does to its normalised images."""

    angle: float = 0.0
    """In degrees, counter-clockwise."""
    noise: float = 0.0
    """Standard deviation, where that of the data set's pixels is 1."""

    @classmethod
    def of_client(cls, settings: FeatureSkewConfig, streams: Streams, client: int) -> FeatureSkew:
        """Drawn once for each client: angle within ±rotation, noise up to ``noise``."""
        if not settings.any:
            return cls()
        turn, level = streams.numpy("feature-skew", client=client).random(2)
        return cls(settings.rotation * (2 * turn - 1), settings.noise * level)

    def apply(self, images: Tensor, random: torch.Generator) -> Tensor:
        """A whole batch; noise is drawn anew each time an image is read."""
        if self.angle:
            images = rotate(images, self.angle)
        if self.noise:
            drawn = torch.randn(images.shape, generator=random)
            images = images + self.noise * drawn.to(images.device)
        return images


def rotate(images: Tensor, degrees: float) -> Tensor:
    """Images turned about their middle; what was outside continues the border."""
    height, width = images.shape[-2:]
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    # Where a pixel's value comes from, in coordinates from -1 to 1 along each side.
    source = torch.tensor([[cos, -sin * height / width, 0.0], [sin * width / height, cos, 0.0]])
    grid = F.affine_grid(source[None].to(images), [1, 1, height, width], align_corners=False)
    return F.grid_sample(
        images,
        grid.expand(len(images), -1, -1, -1),
        padding_mode="border",
        align_corners=False,
    )


def check_skew(settings: FeatureSkewConfig, shape: tuple[int, ...], data: str) -> None:
    """Refuse a skew that examples of this shape cannot have."""
    if settings.rotation and len(shape) != 3:
        raise ConfigError.of(
            "feature_skew.rotation", settings.rotation, f"data={data} is no images; must be 0"
        )


def refuse_skew(settings: FeatureSkewConfig, why: str) -> None:
    """For data that has no images."""
    for name in ("rotation", "noise"):
        value = getattr(settings, name)
        if value:
            raise ConfigError.of(f"feature_skew.{name}", value, f"{why}; must be 0")
