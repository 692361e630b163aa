"""Batch norm with its few numbers worked out once.

A compiler would work out a channel's mean, deviation and scale anew at every pixel; here they are
written down for a vector's lanes, and a pixel costs a difference and a product.

Used as replacements while a training step is traced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from heterofl_ray.clients.trainers.lanes import Lanes

aten = torch.ops.aten


def forward(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    lanes = Lanes.of(x)
    kept = running_mean is not None or not training
    if lanes is None or kept or weight is None or bias is None:
        return common(aten.native_batch_norm)(
            x, weight, bias, running_mean, running_var, training, momentum, eps
        )
    rows = lanes.rows(x)
    mean = lanes.sums(rows) / lanes.pixels
    centred = rows - lanes.repeated(mean)
    inverse = (lanes.sums(centred.square()) / lanes.pixels + eps).rsqrt()
    out = centred * lanes.repeated(inverse * weight) + lanes.repeated(bias)
    return lanes.images(out), mean, inverse


def backward(
    d_output: Tensor,
    x: Tensor,
    weight: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    mean: Tensor,
    inverse: Tensor,
    training: bool,
    eps: float,
    wanted: list[bool],
) -> Any:
    lanes = Lanes.of(x)
    kept = running_mean is not None or not training
    if lanes is None or Lanes.of(d_output) != lanes or kept or weight is None:
        return common(aten.native_batch_norm_backward)(
            d_output, x, weight, running_mean, running_var, mean, inverse, training, eps, wanted
        )
    slopes = lanes.rows(d_output)
    centred = lanes.rows(x) - lanes.repeated(mean)
    d_bias = lanes.sums(slopes)
    d_weight = lanes.sums(slopes * centred) * inverse
    # what a pixel's own share in mean and deviation takes away
    level = lanes.repeated(d_bias / lanes.pixels)
    slant = lanes.repeated(d_weight * inverse / lanes.pixels)
    d_rows = (slopes - level - centred * slant) * lanes.repeated(inverse * weight)
    return lanes.images(d_rows), d_weight, d_bias


def common(operator: Any) -> Callable[..., Any]:
    """What torch's compiler makes of it, for images that lie otherwise."""
    from torch._decomp import get_decompositions

    found: Callable[..., Any] = get_decompositions([operator])[operator.default]
    return found


WORKED_OUT_ONCE: dict[Any, Callable[..., Any]] = {
    aten.native_batch_norm.default: forward,
    aten.native_batch_norm_backward.default: backward,
}
