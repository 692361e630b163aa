"""Shares on the simplex: hand-worked points, round trips, and uniform draws."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofl_ray.mixes import parse_mix
from heterofl_ray.tuning.shares import every_parts, mix_text, parts_of, positions_of, shares_of

POSITIONS = st.lists(st.floats(0, 1), min_size=1, max_size=6)


def test_a_stick_is_broken_by_hand() -> None:
    assert shares_of([0.3]) == pytest.approx([0.3, 0.7])
    # of three: the first is 1 - sqrt(1 - 0.75) = 0.5, the second half of what is left
    assert shares_of([0.75, 0.5]) == pytest.approx([0.5, 0.25, 0.25])
    assert shares_of([]) == [1.0]


@given(POSITIONS)
def test_shares_are_a_point_on_the_simplex(positions: list[float]) -> None:
    shares = shares_of(positions)
    assert len(shares) == len(positions) + 1
    assert min(shares) >= 0
    assert sum(shares) == pytest.approx(1)


@given(POSITIONS, st.sampled_from([4, 10, 100]), st.floats(0, 0.4))
def test_parts_add_up_and_small_ones_are_dropped(
    positions: list[float], total: int, drop: float
) -> None:
    shares = shares_of(positions)
    parts = parts_of(shares, drop, total)
    assert sum(parts) == total
    kept = [share for share in shares if share >= drop - 1e-9]
    for share, part in zip(shares, parts, strict=True):
        if kept and share < drop - 1e-9:
            assert part == 0
        elif kept:  # the nearest whole number on one side or the other
            assert abs(part - share / sum(kept) * total) < 1


@given(st.integers(2, 5), st.sampled_from([3, 4, 10]))
def test_positions_lead_back_to_every_composition(levels: int, total: int) -> None:
    every = list(every_parts(levels, total, 0))
    for parts in every:
        positions = positions_of([part / total for part in parts])
        assert all(0 <= position <= 1 for position in positions)
        assert parts_of(shares_of(positions), 0, total) == parts


def test_all_compositions_are_there_once() -> None:
    # 10 parts among 3 levels: 12 choose 2
    every = [tuple(parts) for parts in every_parts(3, 10, 0)]
    assert len(every) == len(set(every)) == 66
    # without shares below 0.3, two levels get 10:0, 7:3, 6:4, 5:5 and so on
    assert list(every_parts(2, 10, 0.3)) == [
        [10, 0], [7, 3], [6, 4], [5, 5], [4, 6], [3, 7], [0, 10],
    ]  # fmt: skip


def test_uniform_positions_give_uniform_mixes() -> None:
    """On a simplex of three, a share is above x with probability (1 - x) squared."""
    draw = random.Random(1)
    drawn = [shares_of([draw.random(), draw.random()]) for _ in range(20_000)]
    for level in range(3):
        for x in (0.2, 0.5, 0.8):
            above = sum(shares[level] > x for shares in drawn) / len(drawn)
            assert above == pytest.approx((1 - x) ** 2, abs=0.015)


@pytest.mark.parametrize(
    ("names", "parts", "text"),
    [
        (("a", "e"), [31, 69], "a31-e69"),
        (("a", "b", "c"), [0, 40, 60], "b40-c60"),
        (("a", "b", "c"), [50, 0, 50], "a-c"),
        (("a",), [100], "a"),
        (("1.0", "0.4"), [30, 70], "1.0:30,0.4:70"),
        (("1.0", "0.25"), [1, 1], "1.0,0.25"),
    ],
)
def test_a_mix_as_text(names: tuple[str, ...], parts: list[int], text: str) -> None:
    assert mix_text(names, parts) == text
    shares = parse_mix(text, 0.5).shares
    held = [part / sum(parts) for part in parts if part]
    assert shares == pytest.approx(held)
