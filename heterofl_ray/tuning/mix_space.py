"""The part of a space that makes mixes: how many levels or which rates, and the clients' shares."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.mixes import parse_mix
from heterofl_ray.tuning.parameters import Sampler, parse_range
from heterofl_ray.tuning.shares import every_parts, mix_text, parts_of, positions_of, shares_of

MIX_NAMES = ("levels", "rates", "shares")
DROP, STEP = 0.05, 0.01
"""Shares below the first are dropped; others are whole multiples of the second."""


@dataclass(frozen=True)
class Shares:
    """How the shares of a mix are rounded."""

    drop: float
    total: int
    """Parts that are dealt among the levels."""
    stepped: bool
    """Whether the step was asked for, as a grid needs it."""


@dataclass(frozen=True)
class MixSpace:
    """Sets of levels to choose from, by name; equal shares where none are drawn."""

    key: str
    """What the choice of a set is called: 'levels' or 'rates'."""
    sets: Mapping[Any, tuple[str, ...]]
    """What the sampler calls each set, and its levels' names or rates, the largest first."""
    shares: Shares | None

    def suggest(self, sampler: Sampler) -> str:
        names = self._set(sampler)
        if self.shares is None:
            return mix_text(names, [1] * len(names))
        positions = [sampler.suggest_float(name, 0.0, 1.0) for name in self._position_names(names)]
        return self._text(names, shares_of(positions))

    def _set(self, sampler: Sampler) -> tuple[str, ...]:
        keys = list(self.sets)
        if len(keys) == 1:
            return self.sets[keys[0]]
        if self.key == "levels" and keys == list(range(keys[0], keys[-1] + 1)):
            return self.sets[sampler.suggest_int("levels", keys[0], keys[-1])]
        return self.sets[sampler.suggest_categorical(self.key, keys)]

    def _position_names(self, names: tuple[str, ...]) -> list[str]:
        return [f"shares_{place + 1}" for place in range(len(names) - 1)]

    def _text(self, names: tuple[str, ...], shares: list[float]) -> str:
        assert self.shares is not None
        return mix_text(names, parts_of(shares, self.shares.drop, self.shares.total))

    def grid(self, most: int) -> list[dict[str, Any]]:
        """Every mix once, as what the sampler is to answer; not many more than ``most``."""
        if self.shares is not None and not self.shares.stepped:
            raise ConfigError.of("sweep.space.shares", "any", "a grid needs {step: …}")
        found: dict[str, dict[str, Any]] = {}
        for key, names in self.sets.items():
            chosen = {} if len(self.sets) == 1 else {self.key: key}
            if self.shares is None:
                found[mix_text(names, [1] * len(names))] = chosen
                continue
            for parts in every_parts(len(names), self.shares.total, self.shares.drop):
                positions = positions_of([part / self.shares.total for part in parts])
                answers = dict(zip(self._position_names(names), positions, strict=True))
                found.setdefault(mix_text(names, parts), chosen | answers)
                if len(found) > most:
                    return list(found.values())
        return list(found.values())


def parse_mix_space(values: Mapping[str, Any], base: ExperimentConfig) -> MixSpace | None:
    if not values:
        return None
    if "levels" in values and "rates" in values:
        raise ConfigError.of("sweep.space.rates", values["rates"], "give levels or rates, not both")
    shares = _parse_shares(values["shares"]) if "shares" in values else None
    if "rates" in values:
        return MixSpace("rates", _rate_sets(values["rates"]), shares)
    if "levels" in values:
        return MixSpace("levels", _level_sets(values["levels"]), shares)
    names = tuple(
        level.name if level.name.isalpha() else repr(level.rate) for level in base.levels.levels
    )
    if len(names) < 2:
        raise ConfigError.of(
            "sweep.space.shares", values["shares"], f"mix={base.mix} has one level"
        )
    return MixSpace("levels", {len(names): names}, shares)


def _parse_shares(value: Any) -> Shares:
    where = "sweep.space.shares"
    if value is True or value is None:
        value = {}
    if not isinstance(value, Mapping) or set(value) - {"drop", "step"}:
        raise ConfigError.of(where, value, "true, or {drop: 0.05, step: 0.01}")
    drop, step = value.get("drop", DROP), value.get("step", STEP)
    for key, number in (("drop", drop), ("step", step)):
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not number >= 0:
            raise ConfigError.of(where, value, f"{key} must be a number of 0 or more")
    total = round(1 / step) if step > 0 else 0
    if total < 1 or abs(total * step - 1) > 1e-6:
        raise ConfigError.of(where, value, "step must divide 1, such as 0.1")
    if drop > 0.5:
        raise ConfigError.of(where, value, "drop must be at most 0.5")
    return Shares(float(drop), total, "step" in value)


def _level_sets(value: Any) -> dict[Any, tuple[str, ...]]:
    where = "sweep.space.levels"
    if isinstance(value, list):
        counts = value
        if not counts or len(set(map(str, counts))) < len(counts):
            raise ConfigError.of(where, value, "needs at least one number, each once")
    else:
        found = parse_range(where, "levels", value, whole=True)
        if found.log:
            raise ConfigError.of(where, value, "goes without log")
        counts = [int(count) for count in found.grid()]
    for count in counts:
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 26:
            raise ConfigError.of(where, value, "must be numbers of levels from 1 to 26")
    return {count: tuple(string.ascii_lowercase[:count]) for count in counts}


def _rate_sets(value: Any) -> dict[Any, tuple[str, ...]]:
    where = "sweep.space.rates"
    if not isinstance(value, list) or not value:
        raise ConfigError.of(
            where, value, "must be lists of rates, such as [[1.0, 0.5], [1.0, 0.2]]"
        )
    sets: dict[Any, tuple[str, ...]] = {}
    for rates in value:
        numbers = isinstance(rates, list) and all(
            isinstance(rate, (int, float)) and not isinstance(rate, bool) for rate in rates
        )
        if not numbers or not rates:
            raise ConfigError.of(where, rates, "must be a list of rates, such as [1.0, 0.5]")
        names = tuple(f"{float(rate)!r}" for rate in sorted(rates, reverse=True))
        parse_mix(",".join(names), 0.5)  # refuses rates that cannot be
        text = "/".join(names)
        if text in sets:
            raise ConfigError.of(where, rates, "each list may be given once")
        sets[text] = names
    return sets
