"""Whether a space has any point that may be trained, asked before anything is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import optuna

from heterofl_ray.errors import ConfigError
from heterofl_ray.tuning.plan import SweepPlan
from heterofl_ray.tuning.pricing import Pricing, Refused
from heterofl_ray.tuning.study import quiet

DRAWS = 200
"""Points that are looked at, chosen so as to come nearer to the constraints."""
RARE = 20
"""A point found only after so many draws is given to the sweep, which might not find it."""


def find_point(plan: SweepPlan, pricing: Pricing) -> dict[str, Any] | None:
    """A point that may be trained, if such are rare; an error where there is none."""
    reason, nearest, drawn = "", "", 0
    least = math.inf
    study = _study(plan)
    for drawn, asked in enumerate(_asked(plan, study), 1):
        settings = plan.space.suggest(asked)
        try:
            config = pricing.config(settings)
            price = pricing.price(config)
            excess = pricing.excess(price)
            if max(excess.values(), default=0) <= 0:
                pricing.check(config)
        except Refused as refused:
            reason = str(refused)
            study.tell(asked, state=optuna.trial.TrialState.FAIL)
            continue
        worst = max(excess, key=lambda limit: excess[limit], default=None)
        if worst is None or excess[worst] <= 0:
            return dict(asked.params) if drawn > RARE else None
        if excess[worst] < least:
            least = excess[worst]
            nearest = worst.broken(price.client, price.large)
        study.tell(asked, excess[worst])
    if nearest:
        raise ConfigError(
            f"sweep.constraints: none of {drawn} points meets them; the nearest: {nearest}"
        )
    raise ConfigError(f"sweep.space: none of {drawn} points can be trained; the last: {reason}")


def _study(plan: SweepPlan) -> optuna.Study:
    """In memory; the excess over the constraints is what it makes small."""
    with quiet():
        sampler = optuna.samplers.TPESampler(seed=plan.settings.seed, n_startup_trials=DRAWS // 4)
        return optuna.create_study(sampler=sampler)


def _asked(plan: SweepPlan, study: optuna.Study) -> Iterator[optuna.Trial]:
    """Points to look at: all of a grid, else some."""
    count = DRAWS
    if plan.settings.sampler == "grid":
        points = plan.space.grid()
        for point in points:
            study.enqueue_trial(point)
        count = len(points)
    for _ in range(count):
        with quiet():
            trial = study.ask()
        yield trial
