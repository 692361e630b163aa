"""What a sweep can make better, and what it can be held to before anything is trained.

``client_…`` are of the average client of a mix and follow from the model alone, so they are known
exactly without training: a constraint on them leaves a point out before it costs anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.models import registry


@dataclass(frozen=True)
class Objective:
    """A figure of a trial and the way it should go."""

    name: str
    about: str
    larger: bool = False

    @property
    def mode(self) -> str:
        return "max" if self.larger else "min"


PRICES = {
    "client_parameters": "average client's parameters",
    "client_flops": "average client's FLOPs, one example forward",
    "client_megabytes": "MB an average client moves in a round, both ways",
}
"""Known before training."""

_MEASURED = {
    "megabytes": "MB moved in the whole run, both ways",
    "seconds": "seconds of training here",
    "simulated_seconds": "seconds on clients' devices",
}
_SCORES = {
    "score": "score of the global model",
    "local_score": "score on clients' own parts of the test set",
    "weakest": "score of the weakest level",
}
NAMES = (*_SCORES, *PRICES, *_MEASURED)


def larger_is_better(config: ExperimentConfig) -> bool:
    """Of the task's score: perplexity is the one that falls."""
    return registry.family(config.model).task != "text"


def parse_objectives(names: Sequence[str], base: ExperimentConfig) -> list[Objective]:
    found = []
    for name in names:
        if name not in NAMES:
            raise ConfigError.unknown("sweep.objectives", name, NAMES)
        if name == "weakest" and base.evaluation.levels == "never":
            raise ConfigError.of(
                "sweep.objectives", name, "levels are not tested: evaluation.levels=never"
            )
        about = (_SCORES | PRICES | _MEASURED)[name]
        found.append(Objective(name, about, name in _SCORES and larger_is_better(base)))
    return found


@dataclass(frozen=True)
class Limit:
    """The average client may cost at most this much, or this share of all-large."""

    name: str
    most: float
    relative: bool

    def excess(self, prices: Mapping[str, float], large: Mapping[str, float]) -> float:
        """How far above the limit, as a share of it; 0 or less: within."""
        most = self.most * large[self.name] if self.relative else self.most
        return prices[self.name] / most - 1

    def broken(self, prices: Mapping[str, float], large: Mapping[str, float]) -> str:
        """In words, what is too much."""
        price = prices[self.name]
        share = f"{100 * price / large[self.name]:.3g}% of all-large"
        return f"{self.name} is {share if self.relative else f'{price:g}'}, at most {self.text}"

    @property
    def text(self) -> str:
        return f"{100 * self.most:g}% of all-large" if self.relative else f"{self.most:g}"


_PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")


def parse_limits(values: Any) -> list[Limit]:
    """A file's ``sweep.constraints``: ``client_flops: 30%``, or a plain number."""
    if values is None:
        return []
    if not isinstance(values, Mapping):
        raise ConfigError.of("sweep.constraints", values, "such as client_flops: 30%")
    return [_limit(str(name), value) for name, value in values.items()]


def _limit(name: str, value: Any) -> Limit:
    where = f"sweep.constraints.{name}"
    if name not in PRICES:
        raise ConfigError.unknown("sweep.constraints", name, PRICES)
    percent = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if percent is not None and float(percent[1]) > 0:
        return Limit(name, float(percent[1]) / 100, relative=True)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e300:
        return Limit(name, float(value), relative=False)
    raise ConfigError.of(where, value, "a number above 0, or a share of all-large such as 30%")
