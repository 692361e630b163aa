"""How much each setting matters: Optuna's fANOVA over what people read, not over what was drawn.

A mix counts as its number of levels and each level's share; the sampler's own numbers, where a
stick is broken, would say little.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.importance import FanovaImportanceEvaluator

from heterofl_ray.tuning.plan import SweepPlan
from heterofl_ray.tuning.study import quiet

LEAST = 4
"""Trials from which anything can be said."""
Features = dict[str, Any]


def features_of(settings: Mapping[str, Any], plan: SweepPlan) -> Features:
    """The settings of a point, its mix as its levels' shares."""
    found = dict(settings)
    if found.pop("mix", None) is not None:
        mix = plan.point(settings).levels
        found["levels"] = len(mix.levels)
        shares = zip(mix.levels, mix.shares, strict=True)
        found |= {f"share_{level.name}": share for level, share in shares}
    return found


def aligned(features: Sequence[Features]) -> list[Features]:
    """The same names for all, in order; a level that a mix does not have has no share."""
    names = dict.fromkeys(name for each in features for name in each)
    shares = sorted(name for name in names if name.startswith("share_"))
    ordered = [*(name for name in names if name not in shares), *shares]
    return [{name: each.get(name, 0.0) for name in ordered} for each in features]


def importance(
    features: Sequence[Features], values: Mapping[str, Sequence[float]]
) -> dict[str, dict[str, float]]:
    """By objective, each setting's share of what makes its values differ."""
    rows = aligned(features)
    if len(rows) < LEAST:
        return {}
    kinds = {name: kind for name in rows[0] if (kind := _kind([row[name] for row in rows]))}
    found = {}
    for objective, numbers in values.items():
        if len(set(numbers)) > 1 and kinds:
            found[objective] = _importance(rows, kinds, numbers)
    return found


def _importance(
    rows: Sequence[Features], kinds: Mapping[str, BaseDistribution], numbers: Sequence[float]
) -> dict[str, float]:
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = optuna.create_study()
        for row, number in zip(rows, numbers, strict=True):
            params = {name: _plain(row[name]) for name in kinds}
            trial = optuna.create_trial(params=params, distributions=dict(kinds), value=number)
            study.add_trial(trial)
        evaluator = FanovaImportanceEvaluator(seed=0)
        return dict(optuna.importance.get_param_importances(study, evaluator=evaluator))


def _kind(values: Sequence[Any]) -> BaseDistribution | None:
    """What the values are drawn from, as far as can be seen; None: they do not differ."""
    plain = [_plain(value) for value in values]
    if len(set(plain)) < 2:
        return None
    if all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in plain):
        return FloatDistribution(min(plain), max(plain))
    return CategoricalDistribution(sorted(set(plain), key=str))


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, (list, tuple)) else value
