"""When a figure counts as having become worse."""

from __future__ import annotations

import pytest

from benchmarks.compare import regressions, worse
from benchmarks.measure import Figure


def figure(*values: float, **more: object) -> Figure:
    return Figure(name="x", about="", values=values, **more)  # type: ignore[arg-type]


def entry(*values: float) -> dict[str, object]:
    before = figure(*values)
    return {**before.to_dict(), "repeats": list(values)}


@pytest.mark.parametrize(
    ("now", "recorded", "expected"),
    [
        ((8.8, 8.9, 8.7), (10, 10.2, 9.9), True),
        ((9.1, 9.2, 9.3), (10, 10.2, 9.9), False),  # less than a tenth
        ((8.8, 10.1, 8.7), (10, 10.2, 9.9), False),  # one repeat was as fast as ever
        ((8.8, 8.9, 8.7), (10, 10.2, 8.5), False),  # it was recorded as slow as that, too
        ((12, 13, 14), (10, 10.2, 9.9), False),  # better
        ((8.9,), (10,), True),
        ((9.0,), (10,), False),  # a tenth is not more than a tenth
    ],
)
def test_worse_by_more_than_a_tenth_and_more_than_the_spread(
    now: tuple[float, ...], recorded: tuple[float, ...], expected: bool
) -> None:
    assert worse(figure(*now), entry(*recorded)) is expected


@pytest.mark.parametrize("more", [{"at_most": 5}, {"less_is_better": True}])
def test_where_less_is_better_more_is_worse(more: dict[str, object]) -> None:
    assert worse(figure(1.2, 1.3, **more), entry(1.0, 1.01))
    assert not worse(figure(0.8, 0.9, **more), entry(1.0, 1.01))


def test_a_figure_may_be_given_more_room() -> None:
    recorded = entry(10, 10.2, 9.9)
    assert worse(figure(7.6, 7.7), recorded)
    assert not worse(figure(7.6, 7.7, tolerance=0.25), recorded)
    assert worse(figure(7.3, 7.4, tolerance=0.25), recorded)


def test_only_what_is_recorded_is_compared_and_worse_ones_are_named() -> None:
    kept = {"theme": {"ratios": {"x": entry(10, 10.2, 9.9)}}}
    other = Figure(name="new", about="", values=(0.1,))
    (line,) = regressions([figure(5, 5.1, 4.9), other], kept)
    assert line == "x: 5 (4.9 to 5.1), recorded 10 (9.9 to 10.2)"
