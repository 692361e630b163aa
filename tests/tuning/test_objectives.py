"""Figures of trials, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from heterofl_ray.tuning.measures import measure, over_seeds, simulated_seconds
from heterofl_ray.tuning.objectives import Limit, parse_limits, parse_objectives
from heterofl_ray.tuning.pricing import Price, Pricing, Refused
from heterofl_ray.tuning.settings import SweepSettings

from .conftest import MakePlan

PRICE = Price({"client_parameters": 460.0}, {}, {"a": 1e6, "b": 2.5e5}, 100.0)
ROWS = [
    {"seconds": 1.5, "megabytes_down": 3.0, "megabytes_up": 3.0, "clients_a": 2, "clients_b": 1,
     "megabytes_a": 2.0, "megabytes_b": 1.0},
    {"seconds": 0.5, "megabytes_down": 1.0, "megabytes_up": 1.0, "clients_a": 0, "clients_b": 2,
     "megabytes_a": 0.0, "megabytes_b": 1.0},
]  # fmt: skip
SUMMARY = {
    "global": {"accuracy": 80.0, "loss": 0.5},
    "local": {"accuracy": 90.0, "loss": 0.4},
    "levels": {"a": {"accuracy": 80.0}, "b": {"accuracy": 70.0}},
    "megabytes_down": 4.0,
    "megabytes_up": 4.0,
}


def test_simulated_rounds_last_as_long_as_their_slowest_client() -> None:
    # A device of 1 GFLOP/s and 8 Mbit/s. Round 1, a client at a: 3 x 1e6 x 100 = 0.3 GFLOP and
    # 1 MB down and 1 MB up, 16.777216 Mbit. Round 2, at b: 0.075 GFLOP and half the bytes.
    settings = SweepSettings(device_gflops=1.0, device_megabits=8.0)
    expected = (0.3 + 2 * 8.388608 / 8) + (0.075 + 8.388608 / 8)
    assert simulated_seconds(ROWS, PRICE, settings) == pytest.approx(expected)


def test_everything_a_run_measured() -> None:
    found = measure(SUMMARY, ROWS, PRICE, SweepSettings(), larger=True)
    assert (found["score"], found["local_score"], found["weakest"]) == (80.0, 90.0, 70.0)
    assert (found["megabytes"], found["seconds"], found["client_parameters"]) == (8.0, 2.0, 460.0)
    assert measure(SUMMARY, ROWS, PRICE, SweepSettings(), larger=False)["weakest"] == 80.0


def test_seeds_give_a_mean_and_a_spread() -> None:
    means, spread = over_seeds([{"score": 80.0}, {"score": 90.0}, {"score": 85.0}])
    assert means == {"score": 85.0}
    assert spread == {"score": pytest.approx(5.0)}
    assert over_seeds([{"score": 80.1}]) == ({"score": 80.1}, {})


def test_which_way_is_better(plan: MakePlan) -> None:
    images = plan().base
    text = images.override(["model=transformer", "data=pydocs"])
    names = ["score", "weakest", "client_flops", "megabytes", "seconds"]
    assert [each.mode for each in parse_objectives(names, images)] == [
        "max", "max", "min", "min", "min",
    ]  # fmt: skip
    assert {each.mode for each in parse_objectives(names, text)} == {"min"}


def test_limits_are_shares_of_all_large_or_numbers() -> None:
    relative, absolute = parse_limits({"client_flops": "30 %", "client_parameters": 500})
    assert relative == Limit("client_flops", 0.3, relative=True)
    large = {"client_flops": 1000.0, "client_parameters": 610.0}
    prices = {"client_flops": 450.0, "client_parameters": 460.0}
    assert relative.excess(prices, large) == pytest.approx(0.5)
    assert relative.broken(prices, large) == (
        "client_flops is 45% of all-large, at most 30% of all-large"
    )
    assert absolute.excess(prices, large) == pytest.approx(-0.08)


def test_the_average_client_of_a_mix_is_priced_exactly(plan: MakePlan, data_root: Path) -> None:
    found = plan(constraints={"client_parameters": "50%"})
    pricing = Pricing(found, data_root)
    price = pricing.price(pricing.config({"mix": "a30-c70"}))
    assert price.client["client_parameters"] == pytest.approx(0.3 * 610 + 0.7 * 160)
    assert price.large["client_parameters"] == 610
    # a multiply-add is two FLOPs: 2 x (64·8 + 8·10) for a, 2 x (64·2 + 2·10) for c
    assert price.client["client_flops"] == pytest.approx(0.3 * 1184 + 0.7 * 296)
    assert price.client["client_megabytes"] == pytest.approx(2 * 4 * 295 / 1024**2)
    (excess,) = pricing.excess(price).values()
    assert excess == pytest.approx(295 / 305 - 1)
    # the largest level is b: all-large is still the whole model
    smaller = pricing.price(pricing.config({"mix": "b"}))
    assert smaller.client["client_parameters"] == 310
    assert smaller.large == price.large


def test_points_that_cannot_be_trained_say_why(plan: MakePlan, data_root: Path) -> None:
    pricing = Pricing(plan(), data_root)
    with pytest.raises(Refused, match="mix='q!'"):
        pricing.config({"mix": "q!"})
    with pytest.raises(Refused, match="clients=20000"):
        pricing.check(pricing.config({"mix": "a", "clients": 20000}))
    with pytest.raises(Refused, match="assignment='capability'"):
        pricing.price(pricing.config({"assignment": "capability"}))
