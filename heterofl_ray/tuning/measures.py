"""What a trained trial measured: every objective's figure, the mean over its seeds, the spread."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.tuning.pricing import Price
from heterofl_ray.tuning.settings import SweepSettings

Row = Mapping[str, Any]

_MEGABITS = 8 * 1024**2 / 1e6
"""In a megabyte."""


def measure(
    summary: Mapping[str, Any],
    rows: Sequence[Row],
    price: Price,
    settings: SweepSettings,
    larger: bool,
) -> dict[str, float]:
    """All figures of one finished run; the score is the first of its metrics."""
    levels = [first(scores) for scores in summary["levels"].values()]
    return {
        "score": first(summary["global"]),
        "local_score": first(summary["local"]),
        "weakest": (min if larger else max)(levels, default=math.nan),
        **price.client,
        "megabytes": summary["megabytes_down"] + summary["megabytes_up"],
        "seconds": math.fsum(row["seconds"] for row in rows),
        "simulated_seconds": simulated_seconds(rows, price, settings),
    }


def first(scores: Mapping[str, float]) -> float:
    return next(iter(scores.values()), math.nan)


def simulated_seconds(rows: Sequence[Row], price: Price, settings: SweepSettings) -> float:
    """What the rounds would take if all of a cohort worked at once, each on a device of its own.

    A round lasts as long as its slowest level: forward and backward (counted as three forward
    passes) over a client's examples, and its model down and up.
    """
    total = 0.0
    for row in rows:
        both = 1 + row["megabytes_up"] / row["megabytes_down"] if row["megabytes_down"] else 0.0
        times = [0.0]
        for level, flops in price.flops.items():
            clients = row.get(f"clients_{level}") or 0
            if clients:
                moved = both * (row.get(f"megabytes_{level}") or 0.0) / clients * _MEGABITS
                computed = 3 * flops * price.passes / 1e9 / settings.device_gflops
                times.append(computed + moved / settings.device_megabits)
        total += max(times)
    return total


def over_seeds(runs: Sequence[Mapping[str, float]]) -> tuple[dict[str, float], dict[str, float]]:
    """Means, and sample standard deviations where a point was run more than once."""
    means = {name: statistics.fmean(run[name] for run in runs) for name in runs[0]}
    if len(runs) == 1:
        return dict(runs[0]), {}
    return means, {name: statistics.stdev(run[name] for run in runs) for name in runs[0]}


def seeded(config: ExperimentConfig, seed: int) -> ExperimentConfig:
    """The same experiment with another seed; ``seed`` counts from 0."""
    return config.override([f"seed={config.seed + seed}"])
