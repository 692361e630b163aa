"""Gaussian noise in a round's sums (``privacy.*``), keyed by round and parameter.

The draws are the same wherever the server runs and however many share its tensors. They come from
the run's seed: good for a simulation. A deployment would have to draw them in secret.
"""

from __future__ import annotations

import torch
from torch import Tensor

from heterofl_ray.randomness import Streams
from heterofl_ray.trust_settings import PrivacyConfig


class SumNoise:
    """Noise of standard deviation z x C for each element of a sum of updates of at most length C.

    An element that k clients hold has noise of z x C / k in its mean.
    """

    def __init__(self, settings: PrivacyConfig, streams: Streams, round_number: int) -> None:
        self._deviation = settings.noise * settings.clip
        self._streams = streams
        self._round = round_number

    def __call__(self, name: str, sums: Tensor) -> Tensor:
        random = self._streams.torch(f"privacy noise: {name}", self._round)
        drawn = torch.randn(sums.shape, generator=random)
        return self._deviation * drawn.to(sums)
