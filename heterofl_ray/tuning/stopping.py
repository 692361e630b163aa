"""Ending trials early that fall behind: Tune's schedulers, which a resumed sweep reminds of before.

They look at the score over the rounds that were tested. Optuna's own pruners know no studies of
several objectives.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray.tune.schedulers import (
    AsyncHyperBandScheduler,
    FIFOScheduler,
    MedianStoppingRule,
    TrialScheduler,
)

from heterofl_ray.reporting.runs import open_run
from heterofl_ray.tuning.objectives import larger_is_better
from heterofl_ray.tuning.plan import SweepPlan
from heterofl_ray.tuning.trials import trial_folder

REDUCTION = 3
"""ASHA: one in so many trials goes on from each rung."""


def make_scheduler(plan: SweepPlan) -> Any:
    watched = {
        "time_attr": "round",
        "metric": "score",
        "mode": "max" if larger_is_better(plan.base) else "min",
        "grace_period": plan.settings.grace,
    }
    match plan.settings.stopping:
        case "asha":
            return AsyncHyperBandScheduler(
                **watched,
                max_t=plan.base.rounds,
                reduction_factor=REDUCTION,
                stop_last_trials=False,
            )
        case "median":
            # without a time slice no trial is paused: it would have to begin again
            return MedianStoppingRule(**watched, min_time_slice=math.inf)
        case _:
            return FIFOScheduler()


@dataclass(frozen=True)
class _Known:
    """A trial of before, as far as schedulers look."""

    trial_id: str


def remind(scheduler: Any, plan: SweepPlan, curves: Iterable[Mapping[int, float]]) -> None:
    """Tell a new scheduler the scores by round of trials that are done."""
    if plan.settings.stopping == "none":
        return
    for number, curve in enumerate(curves):
        trial = _Known(f"known-{number}")
        results = [{"round": t, "score": score} for t, score in curve.items()]
        if not results:
            continue
        scheduler.on_trial_add(None, trial)
        for result in results:
            if scheduler.on_trial_result(None, trial, result) == TrialScheduler.STOP:
                break
        scheduler.on_trial_complete(None, trial, results[-1])


def known_curves(folder: Path, numbers: Iterable[int]) -> list[dict[int, float]]:
    """The scores by round of each trial's first run, as its folder has them."""
    curves = []
    for number in numbers:
        for path in sorted(trial_folder(folder, number).glob("*/config.yaml"))[:1]:
            run = open_run(path.parent)
            if run.metric is not None:
                curve = run.curve(f"global_{run.metric.name}")
                curves.append(dict(zip(curve.rounds, curve.values, strict=True)))
    return curves
