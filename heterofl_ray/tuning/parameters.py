"""One dimension of a search space: a range of numbers, or choices.

Nothing here imports Optuna: a sampler is whatever has its ``suggest_…`` methods.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from heterofl_ray.errors import ConfigError


class Sampler(Protocol):
    """The part of an Optuna trial that is used here."""

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float: ...

    def suggest_int(
        self, name: str, low: int, high: int, *, step: int = 1, log: bool = False
    ) -> int: ...

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any: ...


@dataclass(frozen=True)
class Range:
    """A number between two others."""

    name: str
    low: float
    high: float
    step: float | None
    log: bool
    whole: bool

    def suggest(self, sampler: Sampler) -> Any:
        if self.whole:
            step = int(self.step or 1)
            return sampler.suggest_int(
                self.name, int(self.low), int(self.high), step=step, log=self.log
            )
        return sampler.suggest_float(self.name, self.low, self.high, step=self.step, log=self.log)

    def grid(self) -> list[Any]:
        step = self.step or (1 if self.whole else None)
        if step is None:
            raise ConfigError.of(
                f"sweep.space.{self.name}", "a range", "a grid needs a step or a list of choices"
            )
        count = math.floor((self.high - self.low) / step + 1e-9) + 1
        values = [round(self.low + place * step, 12) for place in range(count)]
        return [int(value) for value in values] if self.whole else values


@dataclass(frozen=True)
class Choice:
    """One of several values; lists are handed to the sampler as texts."""

    name: str
    values: tuple[Any, ...]

    @property
    def shown(self) -> list[Any]:
        return [json.dumps(v) if isinstance(v, (list, tuple)) else v for v in self.values]

    def suggest(self, sampler: Sampler) -> Any:
        chosen = sampler.suggest_categorical(self.name, self.shown)
        return self.values[self.shown.index(chosen)]

    def grid(self) -> list[Any]:
        return self.shown


Parameter = Range | Choice


def parse_range(where: str, name: str, value: Any, whole: bool) -> Range:
    """``{low, high}`` with ``step`` or ``log``."""
    form = "a list of choices, or {low: …, high: …} with step: … or log: true"
    if not isinstance(value, Mapping) or not {"low", "high"} <= set(value):
        raise ConfigError.of(where, value, form)
    unknown = set(value) - {"low", "high", "step", "log"}
    if unknown:
        raise ConfigError.of(where, value, f"{sorted(unknown)[0]!r} is not known: {form}")
    low, high, step = (_number(where, value, key) for key in ("low", "high", "step"))
    log = value.get("log", False)
    if not isinstance(log, bool):
        raise ConfigError.of(where, value, "log must be true or false")
    if low is None or high is None or low > high:
        raise ConfigError.of(where, value, "low must be at most high: there is no valid point")
    if whole and any(n is not None and not n.is_integer() for n in (low, high, step)):
        raise ConfigError.of(where, value, "must be whole numbers")
    if step is not None and (step <= 0 or log):
        raise ConfigError.of(where, value, "step must be above 0, and goes without log")
    if log and low <= 0:
        raise ConfigError.of(where, value, "log needs a low above 0")
    return Range(name, low, high, step, log, whole)


def _number(where: str, value: Mapping[str, Any], key: str) -> float | None:
    given = value.get(key)
    if given is None:
        return None
    try:
        number = math.nan if isinstance(given, bool) else float(given)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ConfigError.of(where, value, f"{key} must be a number")
    return number
