"""Ending trials early: a resumed sweep decides as one that was never stopped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from ray.tune.schedulers import TrialScheduler

from heterofl_ray.tuning.stopping import make_scheduler, remind

from .conftest import MakePlan


@dataclass(frozen=True)
class Trial:
    trial_id: str


def run(scheduler: Any, name: str, scores: dict[int, float]) -> int:
    """Report scores until the scheduler ends the trial; the last round."""
    trial = Trial(name)
    scheduler.on_trial_add(None, trial)
    for number, score in scores.items():
        result = {"round": number, "score": score}
        if scheduler.on_trial_result(None, trial, result) == TrialScheduler.STOP:
            break
    scheduler.on_trial_complete(None, trial, result)
    return number


# Better ones first, so that those behind are ended.
CURVES = [{t: 90 - 10 * n + t for t in range(1, 10)} for n in range(6)]


@pytest.mark.parametrize("stopping", ["asha", "median"])
def test_those_that_fall_behind_are_ended(stopping: str, plan: MakePlan) -> None:
    found = plan({"rounds": 9}, stopping=stopping, grace=2)
    scheduler = make_scheduler(found)
    lengths = [run(scheduler, str(n), curve) for n, curve in enumerate(CURVES)]
    assert lengths[0] == 9
    assert min(lengths) == 2  # never before the grace
    assert lengths[-1] == 2


@pytest.mark.parametrize("stopping", ["asha", "median"])
def test_a_reminded_scheduler_decides_alike(stopping: str, plan: MakePlan) -> None:
    found = plan({"rounds": 9}, stopping=stopping, grace=2)
    whole = make_scheduler(found)
    lengths = [run(whole, str(n), curve) for n, curve in enumerate(CURVES)]
    resumed = make_scheduler(found)
    done = [
        {t: score for t, score in curve.items() if t <= length}
        for curve, length in zip(CURVES[:4], lengths, strict=False)
    ]
    remind(resumed, found, done)
    later = [run(resumed, str(n), curve) for n, curve in enumerate(CURVES[4:])]
    assert later == lengths[4:]
    alone = make_scheduler(found)
    assert run(alone, "first", CURVES[4]) == 9  # it was the reminding that made the difference


def test_perplexity_is_better_when_it_is_smaller(plan: MakePlan) -> None:
    found = plan(
        {"data": "pydocs", "model": "transformer", "rounds": 9, "network": {}},
        stopping="asha",
        grace=2,
    )
    scheduler = make_scheduler(found)
    falling = [dict.fromkeys(range(1, 10), 10.0 + 10 * n) for n in range(4)]
    lengths = [run(scheduler, str(n), curve) for n, curve in enumerate(falling)]
    assert lengths[0] == 9
    assert lengths[-1] == 2


def test_without_stopping_everything_runs(plan: MakePlan) -> None:
    scheduler = make_scheduler(plan())
    remind(scheduler, plan(), CURVES)
    result = {"round": 1, "score": -100.0}
    assert scheduler.on_trial_result(None, Trial("x"), result) == TrialScheduler.CONTINUE
