"""Sums in stages against torch's own."""

from __future__ import annotations

import pytest
import torch

from heterofl_ray.clients.trainers import sums

EXACT = {"rtol": 1e-12, "atol": 1e-12}


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [[0, 2, 3], [-1, 0, -2], [1, 2, 3]])
def test_sums_and_moments_equal_torchs(dim: list[int], keepdim: bool) -> None:
    x = torch.randn(3, 4, 5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(sums.total(x, dim, keepdim), x.sum(dim, keepdim), **EXACT)
    found = sums.variance_and_mean(x, dim, correction=0, keepdim=keepdim)
    expected = torch.var_mean(x, dim, correction=0, keepdim=keepdim)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, **EXACT)


def test_others_stay_with_the_compiler() -> None:
    x = torch.ones(2, 3, 4)
    assert sums.total(x, [0, 1]) is NotImplemented
    assert sums.total(x, [0, 1, 2], dtype=torch.float64) is NotImplemented
    assert sums.variance_and_mean(x, [0, 1], correction=1) is NotImplemented
    assert sums.variance_and_mean(x, None, correction=0) is NotImplemented
