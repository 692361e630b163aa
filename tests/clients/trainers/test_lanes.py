"""Images in whole vectors: the same numbers, by other loops."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from heterofl_ray.clients.trainers.lanes import IN_LANES, VECTOR, Lanes

aten = torch.ops.aten
CHANNELS = [1, 2, 3, 4, 8, 12, 16]


def images(channels: int, sides: tuple[int, int] = (4, 6), count: int = 3) -> Tensor:
    torch.manual_seed(channels)
    x = torch.randn(count, channels, *sides, dtype=torch.float64)
    return x.contiguous(memory_format=torch.channels_last)


@given(
    channels=st.sampled_from(CHANNELS),
    sides=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    count=st.integers(1, 3),
)
def test_rows_are_the_images_numbers_as_they_lie(
    channels: int, sides: tuple[int, int], count: int
) -> None:
    x = images(channels, sides, count)
    lanes = Lanes.of(x)
    assert lanes is not None
    rows = lanes.rows(x)
    assert rows.flatten().tolist() == x.permute(0, 2, 3, 1).flatten().tolist()
    assert torch.equal(lanes.images(rows), x)
    assert lanes.images(rows).is_contiguous(memory_format=torch.channels_last)
    expected = x.sum((0, 2, 3))
    torch.testing.assert_close(lanes.sums(rows), expected, rtol=1e-12, atol=1e-12)
    values = torch.arange(channels)
    assert lanes.repeated(values).tolist() == values.tolist() * (rows.shape[2] // channels)


@pytest.mark.parametrize(
    ("channels", "sides", "lanes"),
    [
        (4, (4, 6), VECTOR),
        (1, (4, 6), VECTOR),
        (2, (3, 3), 2),  # nine pixels do not come in fours
        (3, (4, 6), 3),  # threes do not fill a vector
        (8, (3, 3), 8),
        (16, (4, 6), 16),
    ],
)
def test_few_channels_fill_a_vector(channels: int, sides: tuple[int, int], lanes: int) -> None:
    x = images(channels, sides)
    found = Lanes.of(x)
    assert found is not None
    assert found.rows(x).shape[2] == lanes


@pytest.mark.parametrize("channels", CHANNELS)
def test_operators_give_the_same_in_lanes(channels: int) -> None:
    x, y = images(channels), images(channels) + 1
    for operator, arguments in [
        (aten.add.Tensor, (x, y)),
        (aten.add.Tensor, (x, 2.0)),
        (aten.div.Tensor, (x, 0.5)),
        (aten.div.Tensor, (x, torch.tensor(0.5, dtype=torch.float64))),
        (aten.relu.default, (x,)),
        (aten.threshold_backward.default, (x, y, 0)),
    ]:
        expected = operator(*arguments)
        found = IN_LANES[operator](*arguments)
        assert torch.equal(found, expected)
        assert found.is_contiguous(memory_format=torch.channels_last)
    found = IN_LANES[aten.add.Tensor](x, y, alpha=3)
    torch.testing.assert_close(found, torch.add(x, y, alpha=3), rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize(
    "arguments",
    [
        (torch.zeros(2, 4, 3, 3),),  # channels do not lie side by side
        (torch.zeros(4, 3),),
        (torch.tensor(1.0),),
        (torch.zeros(0, 4, 3, 3).contiguous(memory_format=torch.channels_last),),
    ],
)
def test_what_lies_otherwise_is_left_alone(arguments: tuple[Tensor, ...]) -> None:
    assert IN_LANES[aten.relu.default](*arguments) is NotImplemented


def test_images_of_different_shapes_are_left_alone() -> None:
    other = torch.zeros(1, 4, 1, 1).contiguous(memory_format=torch.channels_last)
    assert IN_LANES[aten.add.Tensor](images(4).float(), other) is NotImplemented
    assert IN_LANES[aten.add.Tensor](images(4), images(4).contiguous()) is NotImplemented
