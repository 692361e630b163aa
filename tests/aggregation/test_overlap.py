"""Overlap averaging against a loop over every element and every client."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from heterofl_ray.aggregation.overlap import OverlapMean
from heterofl_ray.models.layout import Axis, Channels, Fixed, Labels, Layout
from heterofl_ray.submodels.plan import Leading, Picked, Selection, SubmodelPlan

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def test_by_hand() -> None:
    """Clients of widths 3, 2 and 2 over a row of four: nobody holds the last element."""
    layout: Layout = {"w": (Channels("g", 4),)}
    w = {"w": torch.tensor([9.0, 9.0, 9.0, 9.0])}
    mean = OverlapMean(layout, w)
    for values in ([1.0, 2.0, 3.0], [3.0, 4.0], [5.0, 0.0]):
        plan = SubmodelPlan.of(layout, {"g": Leading(1, 4, len(values))})
        mean.add(plan, {"w": torch.tensor(values)}, weight=1)
    mean.commit(w)
    assert w["w"].tolist() == [3.0, 2.0, 3.0, 9.0]


def test_label_rows_count_only_clients_that_hold_them() -> None:
    """Two clients, labels {0, 1} and {1}; label 2 is nobody's; the extra row is everyone's."""
    layout: Layout = {"w": (Labels(3, extra=1), Fixed(1))}
    w = {"w": torch.full((4, 1), 7.0)}
    mean = OverlapMean(layout, w)
    for labels, values in (([0, 1], [1.0, 2.0, 10.0]), ([1], [4.0, 20.0])):
        sums = {"w": torch.tensor(values)[:, None]}
        held = torch.tensor(labels)
        mean.add(SubmodelPlan.of(layout), sums, 1, held, torch.ones(len(labels)))
    mean.commit(w)
    assert w["w"].flatten().tolist() == [1.0, 3.0, 7.0, 15.0]


def test_a_group_sum_counts_each_label_by_its_own_weight() -> None:
    layout: Layout = {"w": (Labels(2),)}
    w = {"w": torch.zeros(2)}
    mean = OverlapMean(layout, w)
    sums = {"w": torch.tensor([6.0, 6.0])}
    mean.add(SubmodelPlan.of(layout), sums, 3, torch.tensor([0, 1]), torch.tensor([3.0, 2.0]))
    mean.commit(w)
    assert w["w"].tolist() == [2.0, 3.0]


def test_starts_from_zero_after_each_commit() -> None:
    layout: Layout = {"w": (Channels("g", 2),)}
    w = {"w": torch.zeros(2)}
    mean = OverlapMean(layout, w)
    for value in (1.0, 5.0):
        mean.add(SubmodelPlan.of(layout, {"g": Leading(1, 2, 1)}), {"w": torch.tensor([value])}, 1)
        mean.commit(w)
        assert w["w"].tolist() == [value, 0.0]


def test_in_place() -> None:
    layout: Layout = {"w": (Channels("g", 2),)}
    w = {"w": torch.zeros(2)}
    address = w["w"].data_ptr()
    mean = OverlapMean(layout, w)
    sums = mean.sums["w"].data_ptr()
    mean.add(SubmodelPlan.of(layout), {"w": torch.ones(2)}, 1)
    mean.commit(w)
    assert (w["w"].data_ptr(), mean.sums["w"].data_ptr()) == (address, sums)


@pytest.mark.parametrize("clients", [1, 3, 10])
def test_all_clients_at_the_largest_level_is_fedavg_bit_for_bit(clients: int) -> None:
    shapes = {"conv": (8, 3, 3, 3), "fc": (10, 8), "bias": (10,)}
    layout: Layout = {
        "conv": (Channels("c", 8), Fixed(3), Fixed(3), Fixed(3)),
        "fc": (Labels(10), Channels("c", 8)),
        "bias": (Labels(10),),
    }
    updates = [{k: torch.randn(s) for k, s in shapes.items()} for _ in range(clients)]
    whole = SubmodelPlan.of(layout, {"c": Leading(1, 8, 8)})
    found = {k: torch.randn(s) for k, s in shapes.items()}
    mean = OverlapMean(layout, found)
    for update in updates:
        mean.add(whole, update, 1)
    mean.commit(found)
    for name in shapes:
        fedavg = sum((u[name] for u in updates[1:]), updates[0][name]) / clients
        assert torch.equal(found[name], fedavg)


# ---- any layout, any levels, any labels -----------------------------------------------------


@dataclass
class Client:
    """What one client holds, in terms that the oracle can loop over."""

    kept: dict[str, list[int]]
    labels: list[int] | None
    weight: float
    values: dict[str, Tensor]

    def label_weights(self, device: str) -> tuple[Tensor | None, Tensor | None]:
        if self.labels is None:
            return None, None
        labels = torch.tensor(self.labels, dtype=torch.long, device=device)
        return labels, torch.full([len(labels)], self.weight, device=device)


@dataclass
class Case:
    layout: dict[str, tuple[Axis, ...]]
    clients: list[Client]
    plans: list[SubmodelPlan]
    start: dict[str, Tensor]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    groups = {
        name: Channels(name, draw(st.integers(1, 3)) * segments, segments)
        for name in ("g", "h")
        for segments in [draw(st.integers(1, 2))]
    }
    label_axis = Labels(draw(st.integers(1, 4)), extra=draw(st.integers(0, 1)))
    kinds = st.sampled_from([groups["g"], groups["h"], label_axis, Fixed(2)])

    def one_label_axis(axes: list[Axis]) -> bool:
        return sum(isinstance(axis, Labels) for axis in axes) <= 1

    layout = {
        name: tuple(draw(st.lists(kinds, min_size=1, max_size=3).filter(one_label_axis)))
        for name in ("p", "q")[: draw(st.integers(1, 2))]
    }
    restricted = draw(st.booleans())
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    clients, plans = [], []
    for _ in range(draw(st.integers(1, 4))):
        kept, selections = {}, {}
        for name, axis in groups.items():
            kept[name], selections[name] = draw(channel_choice(axis))
        labels = None
        if restricted:
            chosen = st.lists(st.integers(0, label_axis.size - 1), unique=True)
            labels = sorted(draw(chosen))
        plans.append(SubmodelPlan.of(layout, selections))
        values = {
            name: torch.from_numpy(
                random.standard_normal([len(places(axis, kept, labels)) for axis in axes])
            )
            for name, axes in layout.items()
        }
        clients.append(Client(kept, labels, float(draw(st.integers(1, 3))), values))
    start = {
        name: torch.from_numpy(random.standard_normal([axis.width for axis in axes]))
        for name, axes in layout.items()
    }
    return Case(layout, clients, plans, start)


@st.composite
def channel_choice(draw: st.DrawFn, axis: Channels) -> tuple[list[int], Selection]:
    """Leading channels of each segment, or any channels at all."""
    outer = axis.width // axis.segments
    if draw(st.booleans()):
        inner = draw(st.integers(1, outer))
        kept = [s * outer + i for s in range(axis.segments) for i in range(inner)]
        return kept, Leading(axis.segments, outer, inner)
    kept = draw(st.lists(st.integers(0, axis.width - 1), unique=True, min_size=1))
    return kept, Picked(torch.tensor(kept))


def places(axis: Axis, kept: dict[str, list[int]], labels: list[int] | None) -> list[int]:
    """The entries of an axis that a client holds, in its own order."""
    match axis:
        case Channels(group=group):
            return kept[group]
        case Labels() if labels is not None:
            return [*labels, *range(axis.size, axis.width)]
        case _:
            return list(range(axis.width))


def naive_mean(case: Case) -> dict[str, Tensor]:
    """Every element: the weighted mean over the clients that hold it, or its old value."""
    result = {name: tensor.clone() for name, tensor in case.start.items()}
    for name, axes in case.layout.items():
        for element in itertools.product(*(range(axis.width) for axis in axes)):
            total = weight = 0.0
            for client in case.clients:
                held = [places(axis, client.kept, client.labels) for axis in axes]
                if all(place in own for place, own in zip(element, held, strict=True)):
                    local = tuple(
                        own.index(place) for place, own in zip(element, held, strict=True)
                    )
                    total += client.weight * float(client.values[name][local])
                    weight += client.weight
            if weight:
                result[name][element] = total / weight
    return result


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=2000, deadline=None)
@given(case=cases())
def test_equals_a_loop_over_elements_and_clients(device: str, case: Case) -> None:
    found = {name: tensor.to(device, copy=True) for name, tensor in case.start.items()}
    mean = OverlapMean(case.layout, found, torch.float64)
    for client, plan in zip(case.clients, case.plans, strict=True):
        weighed = {n: (v * client.weight).to(device) for n, v in client.values.items()}
        mean.add(plan, weighed, client.weight, *client.label_weights(device))
    mean.commit(found)
    for name, expected in naive_mean(case).items():
        assert torch.allclose(found[name].cpu(), expected, rtol=1e-12, atol=1e-12)


def test_float64_sums_keep_what_float32_loses() -> None:
    layout: Layout = {"w": (Channels("g", 1),)}
    values = [2.0**24, 1.0, 1.0]
    results = {}
    for dtype in (torch.float32, torch.float64):
        w = {"w": torch.zeros(1)}
        mean = OverlapMean(layout, w, dtype)
        for value in values:
            mean.add(SubmodelPlan.of(layout), {"w": torch.tensor([value])}, 1)
        results[dtype] = mean.sums["w"].item()
    assert results == {torch.float32: 2.0**24, torch.float64: 2.0**24 + 2}
