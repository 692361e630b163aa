"""Giving a method of one size the level that costs a client as much as the mix does on average."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.mixes import Level
from heterofl_ray.models.costs import Costs, mix_costs, model_costs


@dataclass(frozen=True)
class Matching:
    """A level of the mix, what it costs, and what the mix's average client costs."""

    cost: str
    level: Level
    value: float
    mean: float


def nearest_level(config: ExperimentConfig, data_root: Path, cost: str) -> Matching:
    """The level of the mix whose cost is nearest to the mean; of two, the larger."""
    spec = Workbench(config, data_root, torch.device("cpu")).spec
    mix = config.levels
    costs = [model_costs(spec.at(level), level.rate) for level in mix.levels]
    mean = _value(mix_costs(mix, costs), cost)
    values = [_value(each, cost) for each in costs]
    place = min(range(len(values)), key=lambda index: abs(values[index] - mean))
    return Matching(cost, mix.levels[place], values[place], mean)


def _value(costs: Costs, cost: str) -> float:
    """Bytes are of a whole model one way."""
    known = {
        "parameters": costs.parameters,
        "flops": costs.flops,
        "bytes": costs.parameters * 4,
    }
    return known[cost]
