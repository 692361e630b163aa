"""Ray Tune's searcher: OptunaSearch, with points left out before they cost anything.

A drawn point that breaks a constraint, cannot be trained or was trained before is told to Optuna as
pruned, with the reason, and another is drawn. A trial that was ended early is told as pruned too:
its figures are of fewer rounds than the others'.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, Trial, TrialState
from ray.tune.search.optuna import OptunaSearch

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.tuning.parameters import Sampler
from heterofl_ray.tuning.plan import SweepPlan
from heterofl_ray.tuning.pricing import Price, Pricing, Refused
from heterofl_ray.tuning.study import interrupted, make_sampler, quiet, was_begun
from heterofl_ray.tuning.trials import ERROR, trial_folder

MOST_DRAWS = 300
"""Points in a row that are left out, after which there is taken to be nothing new."""
OWN_DRAWS = {"gp": 1}
"""Draws of a sampler in a row, 20 if not said, before points are drawn at random instead. A
Gaussian process learns nothing from a point that was left out, and would draw it again."""


class Search(OptunaSearch):  # type: ignore[misc]  # Ray's classes are not typed
    """Hands out trials: first those that a stopped sweep left unfinished, then new points."""

    def __init__(
        self,
        plan: SweepPlan,
        pricing: Pricing,
        storage: BaseStorage,
        name: str,
        known: int,
        folder: Path,
        told: Callable[[FrozenTrial], None],
    ) -> None:
        with quiet():
            super().__init__(
                space=self._draw,
                metric=[objective.name for objective in plan.objectives],
                mode=[objective.mode for objective in plan.objectives],
                sampler=make_sampler(plan.settings, known),
                study_name=name,
                storage=storage,
            )
        self._plan = plan
        self._pricing = pricing
        self._told = told
        self._folder = folder
        self.ended = ""
        """Why there are no more points, if there are none."""
        self.study: optuna.Study = self._ot_study
        self._at_random = optuna.samplers.RandomSampler(seed=plan.settings.seed + known + 1)
        self._left = [Trial(self.study, trial._trial_id) for trial in interrupted(self.study)]
        self._hashes = {
            trial.user_attrs["hash"]: trial.number
            for trial in self.study.get_trials(deepcopy=False)
            if was_begun(trial) and trial.state != TrialState.FAIL
        }

    def _draw(self, sampler: Sampler) -> dict[str, Any]:
        return {"settings": json.dumps(self._plan.space.suggest(sampler))}

    # ---- asked by Tune ----------------------------------------------------------------------

    def suggest(self, trial_id: str) -> dict[str, Any] | str:
        if self._left:
            trial = self._left.pop(0)
            self._ot_trials[trial_id] = trial
            return _asked(trial)
        for draws in range(MOST_DRAWS):
            if self._plan.settings.sampler == "grid" and not self._waiting():
                self.ended = "every point of the grid is done"
                return str(self.FINISHED)
            own = OWN_DRAWS.get(self._plan.settings.sampler, 20)
            self.study.sampler = self._sampler if draws < own else self._at_random
            with quiet():
                drawn = super().suggest(trial_id)
            trial = self._ot_trials[trial_id]
            try:
                config, price = self._judge(trial, json.loads(drawn["settings"]))
            except Refused as reason:
                self._leave_out(self._ot_trials.pop(trial_id), str(reason))
                continue
            trial.set_user_attr("price", price.plain())
            trial.set_user_attr("config", config.to_dict())
            trial.set_user_attr("hash", config.hash())
            trial.set_user_attr("begun", True)  # last: it is whole now
            self._hashes[config.hash()] = trial.number
            return _asked(trial)
        self.ended = f"none of {MOST_DRAWS} drawn points was new and within the constraints"
        return str(self.FINISHED)

    def _judge(self, trial: Trial, settings: Mapping[str, Any]) -> tuple[ExperimentConfig, Price]:
        """What the point is and costs; `Refused` where it is not to be trained."""
        trial.set_user_attr("settings", dict(settings))
        config = self._pricing.config(settings)
        if config.hash() in self._hashes:
            raise Refused(f"the same settings as trial {self._hashes[config.hash()]}")
        price = self._pricing.price(config)
        broken = []
        for limit, excess in self._pricing.excess(price).items():
            trial.set_constraint(limit.name, excess)
            if excess > 0:
                broken.append(limit.broken(price.client, price.large))
        if broken:
            trial.set_user_attr("price", price.plain())
            raise Refused("; ".join(broken))
        self._pricing.check(config)
        return config, price

    def _leave_out(self, trial: Trial, reason: str) -> None:
        trial.set_user_attr("why", reason)
        self._tell(trial, TrialState.PRUNED)

    def _waiting(self) -> bool:
        return bool(self.study.get_trials(deepcopy=False, states=(TrialState.WAITING,)))

    # ---- told by Tune -----------------------------------------------------------------------

    def on_trial_result(self, trial_id: str, result: Mapping[str, Any]) -> None:
        """Scores on the way, where Optuna takes them: with one objective."""
        if self._plan.settings.objectives == ("score",) and "answer" not in result:
            self._ot_trials[trial_id].report(result["score"], result["round"])

    def on_trial_complete(
        self, trial_id: str, result: Mapping[str, Any] | None = None, error: bool = False
    ) -> None:
        trial = self._ot_trials[trial_id]
        if error:
            self._failed(trial, self._error_of(trial.number))
        elif result and "answer" in result:
            self._finished(trial, json.loads(result["answer"]))
        elif result and "round" in result:
            self._leave_out(trial, f"ended early, after round {result['round']}")
        else:
            self._failed(trial, "it ended without a result")
        del self._ot_trials[trial_id]

    def _finished(self, trial: Trial, answer: Mapping[str, Any]) -> None:
        measured = answer["measured"]
        values = [measured[objective.name] for objective in self._plan.objectives]
        for name in ("measured", "spread", "by_seed", "runs"):
            trial.set_user_attr(name, answer[name])
        if all(math.isfinite(value) for value in values):
            self._tell(trial, TrialState.COMPLETE, values)
            return
        bad = [o.name for o in self._plan.objectives if not math.isfinite(measured[o.name])]
        self._failed(trial, f"{bad[0]} is not a number")

    def _failed(self, trial: Trial, error: str) -> None:
        trial.set_user_attr("error", error)
        self._hashes.pop(trial.user_attrs.get("hash", ""), None)
        self._tell(trial, TrialState.FAIL)

    def _error_of(self, number: int) -> str:
        """The last line of what the trial wrote when it failed."""
        try:
            path = trial_folder(self._folder, number) / ERROR
            return path.read_text(encoding="utf-8").strip().splitlines()[-1]
        except (OSError, IndexError):
            return "its process died"

    def _tell(self, trial: Trial, state: TrialState, values: list[float] | None = None) -> None:
        with quiet():
            self.study.tell(trial, values, state=state)
        self._told(self.study.get_trials(deepcopy=False)[trial.number])

    # ---- Tune's own snapshots: a sweep goes on from Optuna's storage, never from a pickle ----

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Nothing to keep."""


def _asked(trial: Trial) -> dict[str, Any]:
    """What `trials.train_trial` is called with."""
    attributes = trial.user_attrs
    point = {"config": attributes["config"], "price": attributes["price"]}
    return {"trial": trial.number, "point": json.dumps(point)}
