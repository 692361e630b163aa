"""Giving a method of one size the width that costs a client as much as a mix does on average.

A cost is a step function of the width: a channel is there or not. So the width that is found costs
nearly as much, and how nearly is told.
"""

from __future__ import annotations

import bisect
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.methods.registry import resolve
from heterofl_ray.mixes import Level
from heterofl_ray.models.costs import model_costs
from heterofl_ray.models.layout import Labels
from heterofl_ray.runner import settled
from heterofl_ray.simulation import Simulation

STEPS = 10_000
"""Widths that are looked at: more than a model has channels side by side."""
FLOAT = 4

Price = Callable[[Level], float]


@dataclass(frozen=True)
class Matching:
    """A level, what it costs, and what the average client of ``method`` costs."""

    cost: str
    level: Level
    value: float
    mean: float
    method: str


def match(candidates: Sequence[ExperimentConfig], data_root: Path, cost: str) -> Matching:
    """The width that costs a client what the first of ``candidates`` with a mix costs on average.

    The mix is the one that its method makes of the settings, be it of widths or of depths. If none
    has a mix, the last candidate counts.
    """
    configs = [settled(config) for config in candidates]
    config = next((one for one in configs if len(one.levels.levels) > 1), configs[-1])
    if config.participants:
        raise ConfigError.of(
            "--match",
            cost,
            f"participants of method={config.method} have models of their own that no width comes "
            "near; name a method with a mix before it",
        )
    bench = Workbench(config, data_root, torch.device("cpu"))
    price = PRICES[cost](bench)
    mean = _mean(config, cost, price)

    def priced(step: int) -> float:
        return price(Level("", step / STEPS))

    above = 1 + bisect.bisect_left(range(1, STEPS), mean, key=priced)
    step = min((above, max(1, above - 1)), key=lambda one: abs(priced(one) - mean))
    rate = step / STEPS
    return Matching(cost, Level(f"{rate:g}", rate), priced(step), mean, config.method)


def _mean(config: ExperimentConfig, cost: str, price: Price) -> float:
    """Of the mix's levels by their shares; FLOPs are those of the method's own steps."""
    method: type[Simulation] = resolve(config.method)
    costs = {level.name: price(level) for level in config.levels.levels}
    if cost == "flops":
        costs = {name: method.example_flops(config, name, costs) for name in costs}
    shares = zip(config.levels.shares, costs.values(), strict=True)
    return sum(share * value for share, value in shares)


def _parameters(bench: Workbench) -> Price:
    return lambda level: model_costs(bench.spec.at(level), level.rate).parameters


def _flops(bench: Workbench) -> Price:
    return lambda level: model_costs(bench.spec.at(level), level.rate).flops


def _bytes(bench: Workbench) -> Price:
    """What a client is sent and sends back; of a vocabulary that may be its own words' rows."""
    held = 0.0
    if bench.sliced:
        everyone = range(bench.config.clients)
        held = statistics.fmean(len(bench.data.labels(client)) for client in everyone)

    def moved(level: Level) -> float:
        total = 0.0
        for axes in bench.layout(level).values():
            total += math.prod(
                held + axis.extra if bench.sliced and isinstance(axis, Labels) else axis.width
                for axis in axes
            )
        return 2 * FLOAT * total

    return moved


PRICES: dict[str, Callable[[Workbench], Price]] = {
    "parameters": _parameters,
    "flops": _flops,
    "bytes": _bytes,
}
