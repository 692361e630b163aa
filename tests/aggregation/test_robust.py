"""Medians and trimmed means against a loop over every element and every client."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from heterofl_ray.aggregation import robust
from heterofl_ray.aggregation.robust import OverlapMiddle
from heterofl_ray.aggregation.server_optimizers import ServerOptimizer
from heterofl_ray.method_settings import ServerConfig
from heterofl_ray.models.layout import Channels, Fixed, Labels, Layout
from heterofl_ray.submodels.plan import Leading, SubmodelPlan

from .test_overlap import Case, cases, places

MEDIAN = ServerConfig(robust="median")
TRIMMED = ServerConfig(robust="trimmed", trim=0.2)


def combined(middle: OverlapMiddle, start: dict[str, Tensor]) -> dict[str, Tensor]:
    found = {name: tensor.clone() for name, tensor in start.items()}
    middle.commit(found)
    return found


def rows_of_four(settings: ServerConfig, rows: list[list[float]]) -> list[float]:
    """What becomes of a row of four nines when clients of these widths send these values."""
    layout: Layout = {"w": (Channels("g", 4),)}
    middle = OverlapMiddle(settings, layout)
    for row in rows:
        plan = SubmodelPlan.of(layout, {"g": Leading(1, 4, len(row))})
        middle.add(plan, {"w": torch.tensor(row)}, weight=1)
    return combined(middle, {"w": torch.full((4,), 9.0)})["w"].tolist()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        # five, three, one and no clients hold the four elements
        (MEDIAN, [3.0, 20.0, 7.0, 9.0]),
        # of five one is left out at each end; of three one too: 0.6 is rounded up
        (TRIMMED, [(2.0 + 3.0 + 4.0) / 3, 20.0, 7.0, 9.0]),
        (ServerConfig(robust="trimmed", trim=0.0), [2**20 / 5 + 2, (5 + 20 + 2**21) / 3, 7.0, 9.0]),
        (ServerConfig(robust="trimmed", trim=0.49), [3.0, 20.0, 7.0, 9.0]),
    ],
)
def test_by_hand(settings: ServerConfig, expected: list[float]) -> None:
    rows = [[2.0, 5.0, 7.0], [2.0**20 + 1, 20.0], [3.0, 2.0**21], [4.0], [0.0]]
    assert rows_of_four(settings, rows) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("settings", [MEDIAN, TRIMMED])
def test_one_or_two_holders_have_their_mean(settings: ServerConfig) -> None:
    assert rows_of_four(settings, [[1.0, 5.0], [4.0]]) == [2.5, 5.0, 9.0, 9.0]


def test_an_even_number_of_clients_has_the_mean_of_the_middle_two() -> None:
    assert rows_of_four(MEDIAN, [[100.0], [2.0], [1.0], [-50.0]])[0] == 1.5


def test_label_rows_are_compared_over_the_clients_that_hold_them() -> None:
    """Labels {0, 1}, {1} and {1}; label 2 is nobody's; the extra row is everyone's."""
    layout: Layout = {"w": (Labels(3, extra=1), Fixed(1))}
    middle = OverlapMiddle(MEDIAN, layout)
    for labels, values in (([0, 1], [1.0, 2.0, 10.0]), ([1], [1e6, 20.0]), ([1], [3.0, 1e6])):
        held = torch.tensor(labels)
        values_of = {"w": torch.tensor(values)[:, None]}
        middle.add(SubmodelPlan.of(layout), values_of, 1, held, torch.ones(len(labels)))
    found = combined(middle, {"w": torch.full((4, 1), 7.0)})["w"]
    assert found.flatten().tolist() == [1.0, 3.0, 7.0, 20.0]


def test_a_rejected_update_has_no_vote_and_a_round_begins_with_none() -> None:
    layout: Layout = {"w": (Fixed(1),)}
    middle = OverlapMiddle(MEDIAN, layout)
    whole = SubmodelPlan.of(layout)
    for value, weight in ((0.0, 0.0), (4.0, 1.0), (5.0, 1.0), (6.0, 1.0)):
        middle.add(whole, {"w": torch.tensor([value])}, weight)
    assert combined(middle, {"w": torch.zeros(1)})["w"].item() == 5.0
    assert combined(middle, {"w": torch.zeros(1)})["w"].item() == 0.0
    middle.add(whole, {"w": torch.tensor([8.0])}, 1)
    middle.clear()
    assert combined(middle, {"w": torch.zeros(1)})["w"].item() == 0.0


def test_a_server_optimizer_goes_in_the_median_s_direction() -> None:
    """avgm with rate 1: two rounds of +2 move by 2 and by 0.9 x 2 + 2; unheld elements stay."""
    settings = ServerConfig(robust="median", optimizer="avgm", beta1=0.9)
    layout: Layout = {"w": (Channels("g", 2),)}
    w = {"w": torch.zeros(2)}
    optimizer, middle = ServerOptimizer(settings, w), OverlapMiddle(settings, layout)
    plan = SubmodelPlan.of(layout, {"g": Leading(1, 2, 1)})
    for expected in (2.0, 5.8):
        for move in (2.0, 2.0, -1e9):
            middle.add(plan, {"w": w["w"][:1] + move}, 1)
        middle.commit(w, optimizer.step)
        assert w["w"].tolist() == pytest.approx([expected, 0.0])


# ---- any layout, any levels, any labels -----------------------------------------------------


def naive(case: Case, settings: ServerConfig) -> dict[str, Tensor]:
    """Every element: the sorted values of the clients that hold it, without the ends."""
    result = {name: tensor.clone() for name, tensor in case.start.items()}
    for name, axes in case.layout.items():
        for element in itertools.product(*(range(axis.width) for axis in axes)):
            values = []
            for client in case.clients:
                held = [places(axis, client.kept, client.labels) for axis in axes]
                pairs = list(zip(element, held, strict=True))
                if all(place in own for place, own in pairs):
                    local = tuple(own.index(place) for place, own in pairs)
                    values.append(float(client.values[name][local]))
            if values and settings.robust == "median":
                result[name][element] = np.median(values)
            elif values:
                cut = min(math.ceil(settings.trim * len(values)), (len(values) - 1) // 2)
                result[name][element] = np.mean(sorted(values)[cut : len(values) - cut])
    return result


@given(
    case=cases(),
    chosen=st.sampled_from([MEDIAN, TRIMMED, ServerConfig(robust="trimmed", trim=0.375)]),
    block=st.sampled_from([1, 7, robust.BLOCK]),
    data=st.data(),
)
@settings(max_examples=400, deadline=None)
def test_equals_a_loop_over_elements_and_clients_in_any_order(
    case: Case, chosen: ServerConfig, block: int, data: st.DataObject
) -> None:
    members = list(zip(case.clients, case.plans, strict=True))
    founds = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(robust, "BLOCK", block)
        for order in (members, data.draw(st.permutations(members))):
            middle = OverlapMiddle(chosen, case.layout, torch.float64)
            for client, plan in order:
                middle.add(plan, client.values, client.weight, *client.label_weights("cpu"))
            founds.append(combined(middle, case.start))
    for name, expected in naive(case, chosen).items():
        assert torch.allclose(founds[0][name], expected, rtol=1e-12, atol=1e-12)
        assert torch.equal(founds[0][name], founds[1][name])
