"""Small plans, and a sampler that answers as told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from heterofl_ray.tuning.plan import SweepPlan, make_plan

# A perceptron of 64 inputs, 8 hidden channels and 10 classes: level a has
# 64·8 + 8 + 8·10 + 10 = 610 parameters, level b (half the width) 310, level c 160.
BASE: dict[str, Any] = {
    "data": "digits",
    "model": "mlp",
    "mix": "a-b",
    "clients": 10,
    "fraction": 0.4,
    "rounds": 2,
    "local_epochs": 1,
    "evaluate_every": 1,
    "network": {"hidden": [8]},
}
SWEEP: dict[str, Any] = {
    "objectives": ["score", "client_parameters"],
    "space": {"levels": {"low": 1, "high": 3}, "shares": {"drop": 0.05}},
}

MakePlan = Callable[..., SweepPlan]


@pytest.fixture
def plan() -> MakePlan:
    """A plan around the small perceptron; keywords change the sweep's group, ``base`` the rest."""

    def make(base: Mapping[str, Any] | None = None, **sweep: Any) -> SweepPlan:
        return make_plan({**BASE, **(base or {}), "sweep": {**SWEEP, **sweep}}, "here")

    return make


class Told:
    """Answers what it was told, and notes what it was asked."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: dict[str, Any] = {}

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        self.asked[name] = (low, high, step, log)
        return float(self.answers[name])

    def suggest_int(
        self, name: str, low: int, high: int, *, step: int = 1, log: bool = False
    ) -> int:
        self.asked[name] = (low, high, step, log)
        return int(self.answers[name])

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        self.asked[name] = list(choices)
        assert self.answers[name] in choices
        return self.answers[name]
