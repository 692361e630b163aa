"""Running a sweep: trials placed by Ray Tune, points drawn by Optuna, all kept in one folder.

A sweep that was stopped goes on from its folder. What counts is Optuna's storage: trials that
ended are never repeated, those that were cut off go on from their runs' checkpoints.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import StorageInternalError
from optuna.trial import FrozenTrial, Trial, TrialState
from ray import tune

from heterofl_ray.data.places import data_dir as data_place
from heterofl_ray.errors import ConfigError, Interrupted, RunFailed
from heterofl_ray.methods.registry import METHODS
from heterofl_ray.models.registry import MODELS
from heterofl_ray.settings import describe
from heterofl_ray.tracking.destination import check_destination
from heterofl_ray.tracking.folder import new_folder
from heterofl_ray.tracking.sweeps import SweepRecorder
from heterofl_ray.tuning.front import figure, front_of, write_jobs
from heterofl_ray.tuning.placement import check_fits, trial_bundles, trial_workers
from heterofl_ray.tuning.plan import Kept, SweepPlan, read_plan
from heterofl_ray.tuning.pricing import Pricing
from heterofl_ray.tuning.probe import find_point
from heterofl_ray.tuning.records import collect, record_of, write_records
from heterofl_ray.tuning.search import Search
from heterofl_ray.tuning.session import on_ray, stoppable
from heterofl_ray.tuning.stopping import known_curves, make_scheduler, remind
from heterofl_ray.tuning.study import open_storage, was_begun
from heterofl_ray.tuning.trials import TrialSetup, train_trial

TUNE = "tune"
"""What Tune keeps while it works; a sweep goes on without it."""
Say = Callable[[str], None]


class SweepStopped(Interrupted):
    """The user or the system asked the sweep to stop."""

    def __str__(self) -> str:
        return f"stopped; go on with: heterofl-ray sweep --resume {self.folder}"


@dataclass(frozen=True)
class SweepResult:
    folder: Path
    records: dict[str, Any]
    jobs: dict[int, list[str]]
    """Files that repeat the front's runs, by trial."""


def start(plan: SweepPlan, *, data_dir: Path | str | None = None, say: Say) -> SweepResult:
    """A new sweep in a folder of its own."""
    plan.check()
    root = data_place(data_dir)
    with on_ray(plan):
        _check_possible(plan)
        pricing = Pricing(plan, root)
        rare = find_point(plan, pricing)
        folder = _new_sweep(plan)
        kept = Kept(str(root), folder.name)
        plan.write(folder, kept)
        return _Sweep(plan, folder, kept, pricing, say).complete(rare)


def resume(
    folder: Path, *, overrides: Sequence[str] = (), data_dir: str | None = None, say: Say
) -> SweepResult:
    """Go on with a sweep; ``overrides`` may change where it runs and how many trials it has."""
    before, kept = read_plan(folder)
    plan = before.override(overrides)
    _check_same(before, plan)
    plan.check()
    root = data_place(data_dir or kept.data_dir or None)
    kept = Kept(str(root), kept.study)
    with on_ray(plan):
        _check_possible(plan)
        plan.write(folder, kept)
        return _Sweep(plan, folder, kept, Pricing(plan, root), say).complete(None)


def _check_possible(plan: SweepPlan) -> None:
    """Refuse what can never be, before a folder is made or a trial waits for it."""
    check_fits(trial_bundles(plan.base, plan.settings.spread))
    check_destination(plan.base.tracking)
    if plan.settings.storage:
        open_storage(plan.settings, Path())


def _check_same(before: SweepPlan, plan: SweepPlan) -> None:
    changed = [
        name
        for old, new in ((before.base, plan.base), (before.settings, plan.settings))
        for name, entry in describe(old).items()
        if not entry["runtime"] and describe(new)[name]["default"] != entry["default"]
    ]
    changed += ["sweep.space"] if before.space != plan.space else []
    changed += ["sweep.constraints"] if before.limits != plan.limits else []
    if changed:
        raise ConfigError(f"{changed[0]}: a sweep that goes on keeps its settings; start another")


def _new_sweep(plan: SweepPlan) -> Path:
    root = Path(plan.base.tracking.root).expanduser().absolute()
    stem = f"sweep-{plan.base.data}-{datetime.now():%Y%m%d-%H%M%S}".replace(":", "-")
    try:
        root.mkdir(parents=True, exist_ok=True)
        return new_folder(root, stem)
    except OSError as error:
        raise ConfigError.of(
            "tracking.root", plan.base.tracking.root, f"cannot be written to: {error.strerror}"
        ) from None


class _Sweep:
    """One sweep in its folder."""

    def __init__(
        self, plan: SweepPlan, folder: Path, kept: Kept, pricing: Pricing, say: Say
    ) -> None:
        self._plan = plan
        self._folder = folder.absolute()
        self._kept = kept
        self._pricing = pricing
        self._say = say
        self._bundles = trial_bundles(plan.base, plan.settings.spread)
        self._recorder = SweepRecorder(plan.base, self._folder, plan.params())
        self._study: optuna.Study | None = None

    def complete(self, rare: dict[str, Any] | None) -> SweepResult:
        try:
            with self._recorder as recorder, stoppable():
                search = self._search(rare)
                done = self._begun(search.study, finished=True)
                records = collect(search.study, self._plan)
                recorder.known([record_of(trial, self._plan) for trial in done], records)
                left = self._plan.settings.trials - len(done)
                if done:
                    self._say(f"{len(done)} trials are done, {max(left, 0)} are left")
                if left > 0:
                    self._fit(search, left, done)
                result = self._finish(search, left)
        except StorageInternalError as error:
            reason = str(error.__cause__ or error).splitlines()[0]
            raise RunFailed(
                f"Optuna's storage failed ({reason}); go on with: "
                f"heterofl-ray sweep --resume {self._folder}"
            ) from None
        finally:
            self._recorder.settle(self._say)
        return result

    def _search(self, rare: dict[str, Any] | None) -> Search:
        storage = open_storage(self._plan.settings, self._folder)
        name = self._kept.study
        known = [s.study_name for s in storage.get_all_studies()]
        before = 0
        if name in known:
            before = storage.get_n_trials(storage.get_study_id_from_name(name))
        search = Search(
            self._plan, self._pricing, storage, name, before, self._folder, self._trial_told
        )
        self._study = search.study
        self._abandon_unbegun(search.study)
        if self._plan.settings.sampler == "grid":
            points = self._plan.space.grid()
            random.Random(self._plan.settings.seed).shuffle(points)
            for point in points[before:]:
                search.study.enqueue_trial(point)
        elif rare is not None:
            search.study.enqueue_trial(rare)
        return search

    def _abandon_unbegun(self, study: optuna.Study) -> None:
        """Points that a killed sweep had drawn and not yet handed out."""
        for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            if not was_begun(trial):
                cut_off = Trial(study, trial._trial_id)
                cut_off.set_user_attr("why", "the sweep was stopped before it began")
                study.tell(cut_off, state=TrialState.FAIL)

    def _begun(self, study: optuna.Study, finished: bool) -> list[FrozenTrial]:
        trials = study.get_trials(deepcopy=False)
        return [t for t in trials if was_begun(t) and t.state.is_finished() == finished]

    def _fit(self, search: Search, left: int, done: Sequence[FrozenTrial]) -> None:
        plan = self._plan
        scheduler = make_scheduler(plan)
        remind(scheduler, plan, known_curves(self._folder, [trial.number for trial in done]))
        setup = TrialSetup(
            self._folder,
            Path(self._kept.data_dir),
            plan.settings,
            (*trial_workers(plan.base), "execution.address=auto", *self._recorder.overrides()),
            {name: family for name, family in MODELS.items() if callable(family.factory)},
            {name: method for name, method in METHODS.items() if not isinstance(method, str)},
        )
        trainable = tune.with_parameters(train_trial, setup=setup)
        tuner = tune.Tuner(
            tune.with_resources(trainable, tune.PlacementGroupFactory(self._bundles)),
            tune_config=tune.TuneConfig(
                search_alg=search,
                scheduler=scheduler,
                num_samples=left,
                max_concurrent_trials=plan.settings.concurrent or None,
                reuse_actors=True,
                trial_name_creator=lambda trial: f"trial-{trial.config['trial']:03d}",
                trial_dirname_creator=lambda trial: f"{trial.config['trial']:03d}",
            ),
            run_config=tune.RunConfig(
                name=f"{datetime.now():%Y%m%d-%H%M%S-%f}",
                storage_path=str(self._folder / TUNE),
                verbose=0,
            ),
        )
        try:
            tuner.fit()
        finally:
            shutil.rmtree(self._folder / TUNE, ignore_errors=True)

    def _trial_told(self, trial: FrozenTrial) -> None:
        """After each trial: the file of trials, MLflow, a line for people."""
        assert self._study is not None
        record = record_of(trial, self._plan)
        if not was_begun(trial):
            return
        records = collect(self._study, self._plan)
        write_records(self._folder, records)
        self._recorder.trial(record, records)
        done = len(self._begun(self._study, finished=True))
        self._say(f"{done}/{self._plan.settings.trials}  {line_of(record)}")

    def _finish(self, search: Search, left: int) -> SweepResult:
        records = collect(search.study, self._plan, finished=True)
        write_records(self._folder, records)
        if search.ended:
            self._say(search.ended)
        elif self._begun(search.study, finished=False) or (left > 0 and self._short(search.study)):
            raise SweepStopped(130, 0, self._folder)
        if not records["front"]:
            errors = [t["error"] for t in records["trials"] if "error" in t]
            reason = f"the first said: {errors[0]}" if errors else "all were ended early"
            raise RunFailed(f"no trial of {self._folder} came to its end; {reason}")
        jobs = write_jobs(self._folder, self._plan, front_of(records))
        return SweepResult(self._folder, records, jobs)

    def _short(self, study: optuna.Study) -> bool:
        return len(self._begun(study, finished=True)) < self._plan.settings.trials


def line_of(record: dict[str, Any]) -> str:
    """One trial in a line."""
    settings = "  ".join(f"{name}={figure(v)}" for name, v in record["settings"].items())
    if record["state"] == "complete":
        found = "  ".join(f"{name} {figure(value)}" for name, value in record["values"].items())
    else:
        found = f"{record['state']}: {record.get('error') or record.get('why', '')}"
    return f"trial {record['number']}: {found}  ({settings})"
