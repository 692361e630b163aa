"""Server optimisers against two steps worked out by hand."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heterofl_ray.aggregation.overlap import OverlapMean
from heterofl_ray.aggregation.server_optimizers import ServerOptimizer
from heterofl_ray.method_settings import ServerConfig
from heterofl_ray.models.layout import Channels, Layout
from heterofl_ray.submodels.plan import Leading, SubmodelPlan

ALL = torch.tensor([True])


def two_steps(**values: object) -> tuple[list[float], dict[str, float]]:
    """From 1.0, with means of 3.0 and then 2.0; the values after each step, and what is kept."""
    w = torch.tensor([1.0], dtype=torch.float64)
    optimizer = ServerOptimizer(ServerConfig.from_dict(values), {"w": w})
    found = []
    for mean in (3.0, 2.0):
        optimizer.step("w", w, torch.tensor([mean], dtype=torch.float64), ALL)
        found.append(w.item())
    return found, {name: tensor.item() for name, tensor in optimizer.state.items()}


def test_without_one_the_mean_is_the_model() -> None:
    assert two_steps(optimizer="none") == ([3.0, 2.0], {})


def test_fedavgm_by_hand() -> None:
    # g = 2: m = 2, w = 1 + 0.5 * 2 = 2; g = 0: m = 0.9 * 2 = 1.8, w = 2 + 0.9 = 2.9
    found, kept = two_steps(optimizer="avgm", lr=0.5, beta1=0.9)
    assert found == pytest.approx([2.0, 2.9], rel=1e-12)
    assert kept == pytest.approx({"optimizer/momentum/w": 1.8}, rel=1e-12)


def test_fedadam_by_hand() -> None:
    # g = 2: m = 0.1 * 2 = 0.2, v = 0.01 * 4 = 0.04, w = 1 + 0.2 / (0.2 + 0.1) = 5/3, uncorrected
    # g = 1/3: m = 0.18 + 1/30 = 0.64/3, v = 0.0396 + 0.01/9 = 0.3664/9, sqrt(v) = sqrt(.3664)/3
    found, kept = two_steps(optimizer="adam", lr=1.0, beta1=0.9, beta2=0.99, tau=0.1)
    second = 5 / 3 + (0.64 / 3) / (0.3664**0.5 / 3 + 0.1)
    assert found == pytest.approx([5 / 3, second], rel=1e-12)
    assert kept == pytest.approx(
        {"optimizer/momentum/w": 0.64 / 3, "optimizer/variance/w": 0.3664 / 9}, rel=1e-12
    )


def test_fedyogi_by_hand() -> None:
    # g = 2: v = 0 - 0.01 * 4 * sign(0 - 4) = 0.04; w as adam's, 5/3
    # g = 1/3: g² = 1/9 > 0.04, so v = 0.04 + 0.01/9 = 0.37/9
    found, kept = two_steps(optimizer="yogi", lr=1.0, beta1=0.9, beta2=0.99, tau=0.1)
    second = 5 / 3 + (0.64 / 3) / (0.37**0.5 / 3 + 0.1)
    assert found == pytest.approx([5 / 3, second], rel=1e-12)
    assert kept["optimizer/variance/w"] == pytest.approx(0.37 / 9, rel=1e-12)


def test_yogis_squares_fall_by_a_fixed_step_where_adams_fall_by_a_share() -> None:
    # v = 0.04 after g = 2; then a mean at the value itself but for 0.1: v - g² > 0
    w = torch.tensor([1.0], dtype=torch.float64)
    settings_ = ServerConfig(optimizer="yogi", lr=1.0, beta2=0.99, tau=0.1)
    optimizer = ServerOptimizer(settings_, {"w": w})
    optimizer.step("w", w, w + 2.0, ALL)
    optimizer.step("w", w, w + 0.1, ALL)
    assert optimizer.state["optimizer/variance/w"].item() == pytest.approx(0.04 - 0.01 * 0.01)


def test_each_has_a_learning_rate_of_its_own_unless_one_is_set() -> None:
    rates = {name: ServerConfig(optimizer=name).learning_rate for name in ("avgm", "adam", "yogi")}
    assert rates == {"avgm": 1.0, "adam": 0.01, "yogi": 0.01}
    assert ServerConfig(optimizer="adam", lr=0.3).learning_rate == 0.3


@pytest.mark.parametrize("kind", ["none", "avgm", "adam", "yogi"])
@settings(max_examples=50, deadline=None)
@given(held=st.integers(1, 4), rounds=st.integers(1, 3))
def test_what_nobody_held_stays_and_its_moments_too(kind: str, held: int, rounds: int) -> None:
    layout: Layout = {"w": (Channels("g", 4),)}
    w = {"w": torch.arange(4.0)}
    optimizer = ServerOptimizer(ServerConfig(optimizer=kind), w)
    mean = OverlapMean(layout, w)
    whole, part = (SubmodelPlan.of(layout, {"g": Leading(1, 4, n)}) for n in (4, held))
    mean.add(whole, {"w": torch.full([4], 9.0)}, 1)
    mean.commit(w, optimizer.step)
    before = {name: tensor[held:].clone() for name, tensor in {**w, **optimizer.state}.items()}
    for _ in range(rounds):
        mean.add(part, {"w": torch.full([held], -3.0)}, 1)
        mean.commit(w, optimizer.step)
    after = {**w, **optimizer.state}
    assert all(torch.equal(after[name][held:], tensor) for name, tensor in before.items())
    assert all(tensor.isfinite().all() for tensor in after.values())


def test_a_state_without_moments_begins_with_none() -> None:
    w = {"w": torch.zeros(2)}
    optimizer = ServerOptimizer(ServerConfig(optimizer="adam"), w)
    optimizer.step("w", w["w"], torch.ones(2), ALL)
    kept = {name: tensor.clone() for name, tensor in optimizer.state.items()}
    assert all(tensor.any() for tensor in kept.values())
    optimizer.load(w)
    assert not any(tensor.any() for tensor in optimizer.state.values())
    optimizer.load(kept)
    assert all(torch.equal(optimizer.state[name], tensor) for name, tensor in kept.items())
