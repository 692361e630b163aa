"""The search space of a sweep: which settings vary, and between what.

A setting is given a list of choices, or ``{low, high}`` with ``step`` or ``log``. Three names that
are no settings make a mix together: ``levels`` (how many, from a on), or ``rates`` (lists of
explicit rates), and ``shares`` (a point on the simplex).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.settings import checked_value, find_setting
from heterofl_ray.tuning.mix_space import MIX_NAMES, MixSpace, parse_mix_space
from heterofl_ray.tuning.parameters import Choice, Parameter, Sampler, parse_range

MOST_POINTS = 20_000
"""Of a grid; more would not be trained anyway."""


Settings = dict[str, Any]


@dataclass(frozen=True)
class Space:
    parameters: tuple[Parameter, ...]
    mix: MixSpace | None = None

    def suggest(self, sampler: Sampler) -> Settings:
        """A point, as settings by their full names."""
        settings = {each.name: each.suggest(sampler) for each in self.parameters}
        if self.mix is not None:
            settings["mix"] = self.mix.suggest(sampler)
        return settings

    def grid(self) -> list[dict[str, Any]]:
        """Every point, as what the sampler is to answer by name."""
        mixes = [{}] if self.mix is None else self.mix.grid(MOST_POINTS)
        axes = [each.grid() for each in self.parameters]
        size = math.prod(map(len, axes)) * len(mixes)
        if size > MOST_POINTS:
            raise ConfigError.of(
                "sweep.sampler", "grid", f"the space has more than {MOST_POINTS} points"
            )
        names = [each.name for each in self.parameters]
        return [
            dict(zip(names, values, strict=True)) | mix
            for values in product(*axes)
            for mix in mixes
        ]


def parse_space(values: Any, base: ExperimentConfig) -> Space:
    """The space that a file's ``sweep.space`` describes."""
    if not isinstance(values, Mapping) or not values:
        raise ConfigError.of(
            "sweep.space", values, "needs settings to vary, such as lr: {low: 0.01, high: 0.1}"
        )
    for name in values:
        if name not in MIX_NAMES:
            _check_name(str(name), values)
    mix = parse_mix_space({n: v for n, v in values.items() if n in MIX_NAMES}, base)
    rest = [_parameter(name, value) for name, value in values.items() if name not in MIX_NAMES]
    return Space(tuple(rest), mix)


def _check_name(name: str, values: Mapping[str, Any]) -> None:
    _, about = find_setting(ExperimentConfig, name)
    where = f"sweep.space.{name}"
    if about["runtime"]:
        raise ConfigError.of(where, values[name], "it changes nothing in the result")
    if name == "seed":
        raise ConfigError.of(where, values[name], "repeat runs with sweep.seeds instead")
    if name == "mix" and any(other in MIX_NAMES for other in values):
        raise ConfigError.of(where, values[name], "levels, rates and shares make the mix already")
    if name == "shrink" and "rates" in values:
        raise ConfigError.of(where, values[name], "rates are explicit; it would change nothing")


def _parameter(name: str, value: Any) -> Parameter:
    where = f"sweep.space.{name}"
    hint, _ = find_setting(ExperimentConfig, name)
    if isinstance(value, list):
        if not value:
            raise ConfigError.of(where, value, "needs at least one choice")
        values = [checked_value(ExperimentConfig, name, each) for each in value]
        if len({json.dumps(each) for each in values}) < len(values):
            raise ConfigError.of(where, value, "each choice may be named once")
        return Choice(name, tuple(values))
    if hint not in (int, float):
        raise ConfigError.of(where, value, "must be a list of choices")
    found = parse_range(where, name, value, whole=hint is int)
    for end in (found.low, found.high):
        checked_value(ExperimentConfig, name, end)
    return found
