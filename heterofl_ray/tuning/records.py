"""A sweep's trials as a plain file, for the report, for MLflow and for people.

``trials.json`` is written anew after every trial, from Optuna's storage, which is what counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from heterofl_ray.reporting.sweep_records import TRIALS_FILE
from heterofl_ray.tracking.folder import partial
from heterofl_ray.tuning.importance import aligned, features_of, importance
from heterofl_ray.tuning.plan import SweepPlan
from heterofl_ray.tuning.study import quiet, was_begun
from heterofl_ray.tuning.trials import TRIALS

_KEPT = ("settings", "measured", "spread", "by_seed", "why", "error")


def state_of(trial: FrozenTrial) -> str:
    match trial.state:
        case TrialState.COMPLETE:
            return "complete"
        case TrialState.PRUNED:
            return "stopped" if was_begun(trial) else "left out"
        case TrialState.FAIL:
            return "failed" if was_begun(trial) else "left out"
        case _:
            return "running"


def record_of(trial: FrozenTrial, plan: SweepPlan) -> dict[str, Any]:
    """One trial, with nothing that is not plain."""
    attributes = trial.user_attrs
    names = [objective.name for objective in plan.objectives]
    values = trial.values if trial.state == TrialState.COMPLETE else None
    runs = [f"{TRIALS}/{trial.number:03d}/{name}" for name in attributes.get("runs", [])]
    return {
        "number": trial.number,
        "state": state_of(trial),
        "params": trial.params,
        "values": None if values is None else dict(zip(names, values, strict=True)),
        "runs": runs,
        **{name: attributes[name] for name in _KEPT if name in attributes},
        "client": attributes.get("price", {}).get("client", {}),
    }


def collect(study: optuna.Study, plan: SweepPlan, finished: bool = False) -> dict[str, Any]:
    """The whole sweep; ``finished`` adds what takes a moment to work out."""
    trials = [t for t in study.get_trials(deepcopy=False) if t.state != TrialState.WAITING]
    names = [objective.name for objective in plan.objectives]
    with quiet():
        front = sorted(trial.number for trial in study.best_trials) if _any(trials) else []
    records = [record_of(trial, plan) for trial in trials]
    complete = [record for record in records if record["state"] == "complete"]
    features = [features_of(record["settings"], plan) for record in complete]
    for record, row in zip(complete, aligned(features), strict=True):
        record["features"] = row
    values = {name: [record["values"][name] for record in complete] for name in names}
    return {
        "name": study.study_name,
        "data": plan.base.data,
        "objectives": [
            {"name": each.name, "about": each.about, "larger": each.larger}
            for each in plan.objectives
        ],
        "constraints": {limit.name: limit.text for limit in plan.limits},
        "front": front,
        "importance": importance(features, values) if finished else {},
        "trials": records,
    }


def _any(trials: list[FrozenTrial]) -> bool:
    return any(trial.state == TrialState.COMPLETE for trial in trials)


def write_records(folder: Path, records: Mapping[str, Any]) -> None:
    path = folder / TRIALS_FILE
    scratch = partial(path)
    scratch.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    scratch.replace(path)
