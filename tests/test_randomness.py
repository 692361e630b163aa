from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from heterofl_ray.randomness import Streams

keys = st.tuples(st.text(max_size=5), st.integers(0, 2**31), st.integers(0, 2**31))


@given(st.integers(0, 2**63 - 1), keys, keys)
def test_a_stream_is_its_key(
    seed: int, one: tuple[str, int, int], two: tuple[str, int, int]
) -> None:
    streams = Streams(seed)
    assert streams.key(*one) == Streams(seed).key(*one)
    assert (streams.key(*one) == streams.key(*two)) == (one == two)


def test_golden_values() -> None:
    """The streams of a seed must never change: old results would not be found again."""
    streams = Streams(2021)
    assert streams.key("cohort", 3) == 2456300787586072593
    assert streams.numpy("cohort", 3).integers(0, 1000, 4).tolist() == [470, 869, 909, 213]


def test_layers_are_keyed_and_leave_the_global_stream_alone() -> None:
    streams = Streams(0)
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    with streams.layers("dropout", 1, 2):
        first = torch.rand(2)
    assert torch.equal(torch.rand(2), expected)
    with streams.layers("dropout", 1, 2):
        assert torch.equal(torch.rand(2), first)
