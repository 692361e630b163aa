"""What a benchmark yields: a ratio, measured several times, and the bound it should keep."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One ratio, a value for each repeat."""

    name: str
    about: str
    values: tuple[float, ...]
    at_least: float | None = None
    at_most: float | None = None
    less_is_better: bool = False
    """Without a bound; one that says at most means it anyhow."""
    tolerance: float = 0.10
    """By what share it may be worse than recorded before it counts as worse."""

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def lower_is_better(self) -> bool:
        return self.less_is_better or self.at_most is not None

    @property
    def holds(self) -> bool:
        """Whether the median keeps the bound."""
        low = self.at_least if self.at_least is not None else float("-inf")
        high = self.at_most if self.at_most is not None else float("inf")
        return low <= self.median <= high

    @property
    def bound(self) -> str:
        if self.at_least is not None:
            return f"at least {self.at_least:g}"
        return f"at most {self.at_most:g}" if self.at_most is not None else ""

    @property
    def spread(self) -> str:
        return f"{shown(min(self.values))} to {shown(max(self.values))}"

    def to_dict(self) -> dict[str, float]:
        return {"median": self.median, "low": min(self.values), "high": max(self.values)}


def shown(value: float) -> str:
    """Three digits, and all of those before the point: 1350 rounds are no 1.35e+03."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
