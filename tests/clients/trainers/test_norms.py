"""Batch norm as it is compiled against the library's, in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from heterofl_ray.clients.trainers import norms

aten = torch.ops.aten
EXACT = {"rtol": 1e-11, "atol": 1e-11}
EPS = 1e-5


def inputs(channels: int, *, side_by_side: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(channels)
    layout = torch.channels_last if side_by_side else torch.contiguous_format
    x, slopes = (
        torch.randn(3, channels, 4, 6, dtype=torch.float64).contiguous(memory_format=layout)
        for _ in range(2)
    )
    weight, bias = torch.randn(2, channels, dtype=torch.float64)
    return 5 + 2 * x, slopes, weight, bias


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 8, 12])
@pytest.mark.parametrize("side_by_side", [True, False])
def test_forward_and_backward_equal_the_librarys(channels: int, side_by_side: bool) -> None:
    x, slopes, weight, bias = inputs(channels, side_by_side=side_by_side)
    expected = aten.native_batch_norm(x, weight, bias, None, None, True, 0.1, EPS)
    found = norms.forward(x, weight, bias, None, None, True, 0.1, EPS)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, **EXACT)

    _, mean, inverse = expected
    wanted = [True, True, True]
    how = (None, None, mean, inverse, True, EPS, wanted)
    expected = aten.native_batch_norm_backward(slopes, x, weight, *how)
    found = norms.backward(slopes, x, weight, *how)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, **EXACT)


def test_kept_statistics_are_the_common_way() -> None:
    x, _, weight, bias = inputs(4, side_by_side=True)
    mean, variance = torch.randn(4, dtype=torch.float64), torch.rand(4, dtype=torch.float64)
    expected = aten.native_batch_norm(x, weight, bias, mean, variance, False, 0.1, EPS)[0]
    found = norms.forward(x, weight, bias, mean, variance, False, 0.1, EPS)[0]
    torch.testing.assert_close(found, expected, **EXACT)


def test_without_weights_is_the_common_way() -> None:
    x, slopes, _, _ = inputs(4, side_by_side=True)
    expected = aten.native_batch_norm(x, None, None, None, None, True, 0.1, EPS)
    found = norms.forward(x, None, None, None, None, True, 0.1, EPS)
    torch.testing.assert_close(found[0], expected[0], **EXACT)
    how = (None, None, None, *expected[1:], True, EPS, [True, False, False])
    ours, theirs = norms.backward(slopes, x, *how), aten.native_batch_norm_backward(slopes, x, *how)
    torch.testing.assert_close(ours[0], theirs[0], **EXACT)
