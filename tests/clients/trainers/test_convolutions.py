"""Convolutions by way of our operators against the library's, in float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heterofl_ray.clients.trainers import convolutions

aten = torch.ops.aten
EXACT = {"rtol": 1e-12, "atol": 1e-12}


@settings(max_examples=150, deadline=None)
@given(
    count=st.integers(1, 3),
    inputs=st.sampled_from([1, 2, 3, 4, 8, 9]),  # fewer than a vector's lanes, and enough
    outputs=st.integers(1, 4),
    kernel=st.integers(1, 4),
    stride=st.integers(1, 3),
    padding=st.integers(0, 3),
    sides=st.tuples(st.integers(4, 9), st.integers(4, 9)),
    bias=st.booleans(),
)
def test_forward_and_backward_equal_the_librarys(
    count: int,
    inputs: int,
    outputs: int,
    kernel: int,
    stride: int,
    padding: int,
    sides: tuple[int, int],
    bias: bool,
) -> None:
    padding = min(padding, kernel - 1)
    torch.manual_seed(0)
    x = torch.randn(count, inputs, *sides, dtype=torch.float64)
    weight = torch.randn(outputs, inputs, kernel, kernel, dtype=torch.float64)
    shift = torch.randn(outputs, dtype=torch.float64) if bias else None
    how = ([stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1)
    expected = aten.convolution(x, weight, shift, *how)
    torch.testing.assert_close(convolutions.forward(x, weight, shift, *how), expected, **EXACT)

    slope = torch.randn_like(expected)
    wanted = [True, True, bias]
    sizes = [outputs] if bias else None
    found = convolutions.backward(slope, x, weight, sizes, *how, wanted)
    library = aten.convolution_backward(slope, x, weight, sizes, *how, wanted)
    for ours, theirs, asked in zip(found, library, wanted, strict=True):
        if asked:
            torch.testing.assert_close(ours, theirs, **EXACT)
        else:
            assert ours is None


def test_what_is_not_wanted_is_not_computed() -> None:
    x, weight = torch.randn(1, 1, 4, 4), torch.randn(1, 1, 3, 3)
    how = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    found = convolutions.backward(x, x, weight, None, *how, [False, True, False])
    assert found[0] is None
    assert found[1].shape == weight.shape


@pytest.mark.parametrize(
    ("shape", "stride", "padding", "dilation", "transposed", "groups"),
    [
        ((2, 2, 3, 3), [1, 1], [1, 1], [2, 2], False, 1),
        ((2, 1, 3, 3), [1, 1], [1, 1], [1, 1], False, 2),
        ((2, 2, 3, 3), [1, 1], [1, 1], [1, 1], True, 1),
        ((2, 2, 3, 1), [1, 1], [1, 1], [1, 1], False, 1),
        ((2, 2, 3, 3), [1, 2], [1, 1], [1, 1], False, 1),
        ((2, 2, 3, 3), [1, 1], [3, 3], [1, 1], False, 1),
        ((2, 2, 3), [1], [1], [1], False, 1),
    ],
)
def test_other_convolutions_stay_with_the_library(
    shape: tuple[int, ...],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    groups: int,
) -> None:
    how = (stride, padding, dilation, transposed, [0, 0], groups)
    x, weight = torch.randn(1, 2, 8, 8), torch.randn(shape)
    assert convolutions.forward(x, weight, None, *how) is NotImplemented
    wanted = [True, True, False]
    assert convolutions.backward(x, x, weight, None, *how, wanted) is NotImplemented


def test_large_ones_and_none_at_all_stay_with_the_library() -> None:
    how = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    side, weight = 64, torch.randn(16, 16, 3, 3)
    most = convolutions.MOST_PRODUCTS // (weight.numel() * side**2)
    for images, ours in ((most, True), (most + 1, False), (0, False)):
        x = torch.zeros(images, 16, side, side)
        answers = (
            convolutions.forward(x, weight, None, *how),
            convolutions.backward(x, x, weight, None, *how, [False, True, False]),
        )
        assert [answer is not NotImplemented for answer in answers] == [ours, ours]
