"""Which channels a sub-model has: rolling ones take turns, random ones are drawn anew."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from heterofl_ray.mixes import Level
from heterofl_ray.models.layout import Axis, Channels, Fixed, Labels, channels
from heterofl_ray.randomness import Streams
from heterofl_ray.submodels.plan import Leading, Picked, Selection, SubmodelPlan
from heterofl_ray.submodels.selectors import Cut, leading, select

STREAMS = Streams(7)
Axes = dict[str, tuple[Axis, ...]]


def layouts(full: int, heads: int, rate: float) -> tuple[Axes, Axes]:
    """A stream that two layers share and an inner group of heads, at full width and at ``rate``."""

    def laid_out(at: float) -> Axes:
        stream, inner = channels("stream", full, at), channels("heads", heads * full, at, heads)
        return {
            "in": (stream, Fixed(2)),
            "query": (inner, stream),
            "out": (Labels(3), inner),
        }

    return laid_out(1.0), laid_out(rate)


def places(selection: Selection) -> list[int]:
    match selection:
        case Leading(segments=segments, outer=outer, inner=inner):
            return [s * outer + i for s in range(segments) for i in range(inner)]
        case Picked(places=chosen):
            return [int(place) for place in chosen]
        case _:
            raise AssertionError(selection)


def chosen(cut: Cut, full: int, heads: int) -> dict[str, list[int]]:
    found = select(cut, *layouts(full, heads, cut.level.rate), STREAMS)
    return {group: places(selection) for group, selection in found.items()}


sizes = {
    "full": st.integers(1, 9),
    "heads": st.integers(1, 3),
    "rate": st.floats(0.05, 1.0),
}


@settings(max_examples=200, deadline=None)
@given(**sizes, first=st.integers(1, 50))
def test_rolling_holds_every_channel_equally_often_in_a_full_cycle(
    full: int, heads: int, rate: float, first: int
) -> None:
    """Also each head's."""
    level = Level("x", rate)
    counts: dict[str, Counter[int]] = {"stream": Counter(), "heads": Counter()}
    for t in range(first, first + full):
        for group, held in chosen(Cut(level, "rolling", t), full, heads).items():
            counts[group].update(held)
    narrow = layouts(full, heads, rate)[1]["query"]
    assert counts["heads"] == dict.fromkeys(range(heads * full), narrow[0].width // heads)
    assert counts["stream"] == dict.fromkeys(range(full), narrow[1].width)


def test_rolling_by_hand() -> None:
    level = Level("b", 0.5)
    found = [chosen(Cut(level, "rolling", t), full=4, heads=2) for t in (1, 2, 4, 5)]
    assert [one["stream"] for one in found] == [[0, 1], [1, 2], [3, 0], [0, 1]]
    assert [one["heads"] for one in found] == [
        [0, 1, 4, 5],
        [1, 2, 5, 6],
        [3, 0, 7, 4],
        [0, 1, 4, 5],
    ]


def test_random_is_a_fresh_draw_for_every_round_client_level_and_seed_and_the_same_again() -> None:
    level = Level("b", 0.5)
    keys = [Cut(level, "random", t, client) for t in (1, 2) for client in (None, 0, 1)]
    keys.append(Cut(Level("c", 0.5), "random", 1))
    drawn = [tuple(chosen(key, 40, 1)["stream"]) for key in keys]
    assert len(set(drawn)) == len(keys)
    assert drawn == [tuple(chosen(key, 40, 1)["stream"]) for key in keys]
    wide, narrow = layouts(40, 1, 0.5)
    other = select(keys[0], wide, narrow, Streams(8))
    assert tuple(places(other["stream"])) != drawn[0]


def test_random_is_uniform() -> None:
    """Of 4 channels 2 are kept: each of the 6 pairs in 1/6 of 3000 draws, within 4 deviations."""
    level, draws = Level("b", 0.5), 3000
    pairs = Counter(
        tuple(chosen(Cut(level, "random", t, 5), 4, 1)["stream"]) for t in range(1, draws + 1)
    )
    assert len(pairs) == 6
    deviation = (draws * 1 / 6 * 5 / 6) ** 0.5
    assert all(abs(count - draws / 6) < 4 * deviation for count in pairs.values())


def test_groups_and_heads_are_drawn_each_for_itself() -> None:
    found = chosen(Cut(Level("b", 0.5), "random", 1, 3), full=40, heads=2)
    first, second = found["heads"][:20], [place - 40 for place in found["heads"][20:]]
    assert len({tuple(first), tuple(second), tuple(found["stream"])}) == 3
    assert all(0 <= place < 40 for place in (*first, *second))


def test_a_server_with_some_of_the_tensors_draws_the_same() -> None:
    cut = Cut(Level("b", 0.5), "random", 1, 3)
    wide, narrow = layouts(40, 1, 0.5)
    part = select(cut, {"in": wide["in"]}, {"in": narrow["in"]}, STREAMS)
    assert places(part["stream"]) == chosen(cut, 40, 1)["stream"]


CUTS = [("leading", None, None), ("rolling", 3, None), ("random", 3, None), ("random", 3, 5)]


@pytest.mark.parametrize(("selection", "round_number", "client"), CUTS)
def test_full_width_is_the_whole_model_in_its_order(
    selection: str, round_number: int | None, client: int | None
) -> None:
    wide, _ = layouts(4, 2, 1.0)
    cut = Cut(Level("a", 1.0), selection, round_number, client)
    assert select(cut, wide, wide, STREAMS) == leading(wide, wide)


@pytest.mark.parametrize(("selection", "round_number", "client"), CUTS)
@settings(max_examples=60, deadline=None)
@given(**sizes)
def test_every_selection_extracts_and_scatters(
    selection: str,
    round_number: int | None,
    client: int | None,
    full: int,
    heads: int,
    rate: float,
) -> None:
    """The narrow model's shapes; distinct places; written back they are where they were."""
    wide, narrow = layouts(full, heads, rate)
    channels_ = select(
        Cut(Level("x", rate), selection, round_number, client), wide, narrow, STREAMS
    )
    held = {group: places(chosen) for group, chosen in channels_.items()}
    assert all(len(set(some)) == len(some) for some in held.values())
    plan = SubmodelPlan.of(wide, channels_)
    whole = {n: torch.randn([a.width for a in axes]) for n, axes in wide.items()}
    before = {name: tensor.clone() for name, tensor in whole.items()}
    taken = plan.extract(whole)
    for name, axes in narrow.items():
        assert list(taken[name].shape) == [axis.width for axis in axes]
        assert torch.equal(taken[name], gathered(whole[name], wide[name], held))
    plan.scatter(whole, taken)
    assert all(torch.equal(whole[name], tensor) for name, tensor in before.items())
    new = {name: torch.randn_like(tensor) for name, tensor in taken.items()}
    plan.scatter(whole, new)
    assert all(torch.equal(plan.extract(whole)[name], tensor) for name, tensor in new.items())
    plan.scatter(whole, taken)
    assert all(torch.equal(whole[name], tensor) for name, tensor in before.items())


def gathered(tensor: Tensor, axes: tuple[Axis, ...], held: dict[str, list[int]]) -> Tensor:
    for place, axis in enumerate(axes):
        if isinstance(axis, Channels):
            tensor = torch.stack([tensor.select(place, i) for i in held[axis.group]], dim=place)
    return tensor
