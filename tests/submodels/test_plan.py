"""Cutting and writing back, against index arithmetic written out by hand."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from heterofl_ray.models.layout import Axis, Channels, Fixed, Labels
from heterofl_ray.submodels.plan import Leading, Picked, Selection, SubmodelPlan, Whole, Window


def test_leading_rows_and_columns() -> None:
    plan = SubmodelPlan({"w": (Leading(1, 4, 2), Leading(1, 3, 2))})
    w = torch.arange(12.0).view(4, 3)
    assert plan.extract({"w": w})["w"].tolist() == [[0, 1], [3, 4]]


def test_segments_keep_the_leading_part_of_each() -> None:
    plan = SubmodelPlan({"w": (Leading(2, 3, 2), Whole())})
    w = torch.arange(12.0).view(6, 2)
    assert plan.extract({"w": w})["w"].tolist() == [[0, 1], [2, 3], [6, 7], [8, 9]]


def test_label_rows_and_the_row_everyone_holds() -> None:
    layout: dict[str, tuple[Axis, ...]] = {"embedding": (Labels(4, extra=1), Channels("e", 2))}
    plan = SubmodelPlan.of(layout, {"e": Leading(1, 2, 1)}, labels=torch.tensor([1, 3]))
    table = torch.arange(10.0).view(5, 2)
    assert plan.extract({"embedding": table})["embedding"].tolist() == [[2], [6], [8]]


def test_extracted_tensors_are_copies() -> None:
    w = torch.zeros(4)
    for selection in (Whole(), Leading(1, 4, 4), Leading(1, 4, 2), Leading(2, 2, 2)):
        SubmodelPlan({"w": (selection,)}).extract({"w": w})["w"].add_(1)
    assert w.tolist() == [0, 0, 0, 0]


def test_add_broadcasts_over_segments_and_picks() -> None:
    w = torch.zeros(4, 3)
    Window.on(w, (Leading(2, 2, 1), Picked(torch.tensor([2, 0])))).add(torch.ones(1, 1))
    assert w.tolist() == [[1, 0, 1], [0, 0, 0], [1, 0, 1], [0, 0, 0]]


# ---- any selection of any tensor ------------------------------------------------------------


@st.composite
def selected_axis(draw: st.DrawFn) -> tuple[int, Selection, list[int]]:
    """An axis: its size, a selection of it, and the selected places written out."""
    kind = draw(st.sampled_from(["whole", "leading", "segments", "picked"]))
    if kind == "whole":
        size = draw(st.integers(1, 4))
        return size, Whole(), list(range(size))
    if kind == "picked":
        size = draw(st.integers(1, 5))
        places = draw(st.lists(st.integers(0, size - 1), unique=True, min_size=1))
        return size, Picked(torch.tensor(places)), places
    segments = 1 if kind == "leading" else draw(st.integers(2, 3))
    outer = draw(st.integers(1, 3))
    inner = draw(st.integers(1, outer))
    places = [part * outer + place for part in range(segments) for place in range(inner)]
    return segments * outer, Leading(segments, outer, inner), places


selected_axes = st.lists(selected_axis(), min_size=1, max_size=4)


def gather(tensor: Tensor, axes: list[tuple[int, Selection, list[int]]]) -> Tensor:
    """The oracle: one axis after another, by lists of places."""
    for axis, (_, _, places) in enumerate(axes):
        tensor = torch.stack([tensor.select(axis, place) for place in places], dim=axis)
    return tensor


def make(axes: list[tuple[int, Selection, list[int]]]) -> tuple[Tensor, SubmodelPlan]:
    shape = [size for size, _, _ in axes]
    tensor = torch.randn(shape, dtype=torch.float64)
    return tensor, SubmodelPlan({"w": tuple(selection for _, selection, _ in axes)})


@settings(max_examples=400, deadline=None)
@given(selected_axes)
def test_extract_takes_the_selected_places(
    axes: list[tuple[int, Selection, list[int]]],
) -> None:
    tensor, plan = make(axes)
    taken = plan.extract({"w": tensor})["w"]
    assert torch.equal(taken, gather(tensor, axes))
    assert taken.is_contiguous()


@settings(max_examples=400, deadline=None)
@given(selected_axes)
def test_extract_then_scatter_is_the_identity(
    axes: list[tuple[int, Selection, list[int]]],
) -> None:
    tensor, plan = make(axes)
    before = tensor.clone()
    plan.scatter({"w": tensor}, plan.extract({"w": tensor}))
    assert torch.equal(tensor, before)


@settings(max_examples=400, deadline=None)
@given(selected_axes)
def test_scatter_then_extract_gives_the_values_and_touches_nothing_else(
    axes: list[tuple[int, Selection, list[int]]],
) -> None:
    tensor, plan = make(axes)
    before = tensor.clone()
    values = torch.randn_like(gather(tensor, axes))
    plan.scatter({"w": tensor}, {"w": values})
    assert torch.equal(gather(tensor, axes), values)
    plan.scatter({"w": tensor}, {"w": gather(before, axes)})
    assert torch.equal(tensor, before)


@settings(max_examples=400, deadline=None)
@given(selected_axes)
def test_add_adds_at_the_selected_places_only(
    axes: list[tuple[int, Selection, list[int]]],
) -> None:
    tensor, plan = make(axes)
    expected = tensor.clone()
    values = torch.randn_like(gather(tensor, axes))
    plan.scatter({"w": expected}, {"w": gather(tensor, axes) + values})
    plan.add({"w": tensor}, {"w": values})
    assert torch.equal(tensor, expected)


def test_fixed_axes_are_whole_and_unrestricted_labels_too() -> None:
    layout: dict[str, tuple[Axis, ...]] = {"w": (Labels(3), Fixed(2), Channels("g", 4))}
    plan = SubmodelPlan.of(layout, {"g": Leading(1, 4, 1)})
    assert plan.selections["w"] == (Whole(), Whole(), Leading(1, 4, 1))


def test_a_group_without_a_selection_is_an_error() -> None:
    with pytest.raises(KeyError):
        SubmodelPlan.of({"w": (Channels("g", 4),)}, {"other": Whole()})
