"""Max pooling by comparisons against the library's, ties included."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heterofl_ray.clients.trainers import pooling

aten = torch.ops.aten


@settings(max_examples=100, deadline=None)
@given(
    sides=st.tuples(st.integers(3, 9), st.integers(3, 9)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    values=st.integers(1, 5),
    seed=st.integers(0, 1000),
)
def test_values_and_places_equal_the_librarys(
    sides: tuple[int, int], kernel: tuple[int, int], values: int, seed: int
) -> None:
    """Few different values make many ties, of which the first counts."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randint(values, (2, 3, *sides), generator=random).double()
    largest, places = pooling.forward(x, list(kernel))
    expected, expected_places = aten.max_pool2d_with_indices(x, list(kernel))
    assert torch.equal(largest, expected)
    assert torch.equal(places, expected_places)


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "ceil"),
    [
        ([1, 1], [0, 0], [1, 1], False),
        ([2, 2], [1, 1], [1, 1], False),
        ([2, 2], [0, 0], [2, 2], False),
        ([2, 2], [0, 0], [1, 1], True),
    ],
)
def test_other_windows_stay_with_the_compiler(
    stride: list[int], padding: list[int], dilation: list[int], ceil: bool
) -> None:
    x = torch.randn(1, 1, 6, 6)
    assert pooling.forward(x, [2, 2], stride, padding, dilation, ceil) is NotImplemented


def test_the_compiler_is_as_before_afterwards() -> None:
    from torch._inductor import decomposition, lowering

    operator = aten.max_pool2d_with_indices_backward.default
    before = lowering.lowerings[operator], decomposition.decompositions[operator]
    with pooling.library_backward():
        assert operator not in decomposition.decompositions
        assert lowering.lowerings[operator] is not before[0]
    assert (lowering.lowerings[operator], decomposition.decompositions[operator]) == before
