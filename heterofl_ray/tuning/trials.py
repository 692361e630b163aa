"""A trial: ordinary runs of one point, in an actor that Ray Tune places.

It reports the score of tested rounds, so that a trial that falls behind can be ended early, and
its figures at the end. A trial that is begun again finds its runs in its folder: finished ones
are read, stopped ones go on from their checkpoint.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray import tune

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import DataError, Interrupted
from heterofl_ray.evaluation import global_scores
from heterofl_ray.methods import registry as method_registry
from heterofl_ray.models import registry as model_registry
from heterofl_ray.progress import Silent
from heterofl_ray.result import RunResult
from heterofl_ray.runner import resume, run, settled
from heterofl_ray.simulation import RoundRecord
from heterofl_ray.tracking import journal
from heterofl_ray.tracking.folder import find_runs
from heterofl_ray.tracking.history import Row
from heterofl_ray.tuning.measures import first, measure, over_seeds, seeded
from heterofl_ray.tuning.objectives import larger_is_better
from heterofl_ray.tuning.pricing import Price
from heterofl_ray.tuning.settings import SweepSettings

TRIALS = "trials"
ERROR = "error.txt"


@dataclass(frozen=True)
class TrialSetup:
    """What every trial of a sweep is given."""

    folder: Path
    data_root: Path
    settings: SweepSettings
    overrides: tuple[str, ...]
    """Where and how it runs; nothing that changes what is computed."""
    models: Mapping[str, model_registry.Family]
    methods: Mapping[str, Any]
    """The driver's, users' own included."""

    def place(self, number: int) -> Path:
        return trial_folder(self.folder, number)


def trial_folder(sweep: Path, number: int) -> Path:
    return sweep / TRIALS / f"{number:03d}"


def train_trial(asked: dict[str, Any], setup: TrialSetup) -> None:
    """Tune's trainable. ``asked`` has the trial's number, its config and its price."""
    # an ended trial keeps its state before the actor is used for the next one
    os.environ["TUNE_FUNCTION_THREAD_TIMEOUT_S"] = "120"
    model_registry.MODELS.update(setup.models)
    method_registry.METHODS.update(setup.methods)
    place = setup.place(asked["trial"])
    try:
        answer = _train(json.loads(asked["point"]), setup, place)
    except Interrupted:
        sys.exit(0)  # as Tune ends a function
    except Exception:
        place.mkdir(parents=True, exist_ok=True)
        (place / ERROR).write_text(traceback.format_exc(), encoding="utf-8")
        raise
    rounds = answer.pop("rounds")
    score = answer["measured"]["score"]
    tune.report({"round": rounds, "score": score, "answer": json.dumps(answer)})


def _train(point: Mapping[str, Any], setup: TrialSetup, place: Path) -> dict[str, Any]:
    config, price = ExperimentConfig.from_dict(point["config"]), Price(**point["price"])
    config = config.override([*setup.overrides, f"tracking.root={place}"])
    larger = larger_is_better(config)
    measured: list[dict[str, float]] = []
    runs: list[str] = []
    for seed in range(setup.settings.seeds):
        of_seed = seeded(config, seed)
        if runs and config.tracking.parent:  # nested below the trial's first run
            of_seed = of_seed.override([f"tracking.parent={_key(Path(runs[0]))}"])
        result = _one_run(of_seed, setup.data_root, Reporter(of_seed, report=seed == 0))
        measured.append(
            measure(result.summary, result.history.to_pylist(), price, setup.settings, larger)
        )
        runs.append(str(result.summary["run_dir"]))
    means, spread = over_seeds(measured)
    return {
        "rounds": config.rounds,
        "measured": means,
        "spread": spread,
        "by_seed": [each["score"] for each in measured],
        "runs": [Path(folder).name for folder in runs],
    }


def _one_run(config: ExperimentConfig, data_root: Path, progress: Silent) -> RunResult:
    """The run of this config: found, gone on with, or made."""
    config = settled(config)  # as its folder knows it
    finished, stopped = find_runs(config, data_root)
    with suppress(DataError):  # one that was killed before it had kept anything
        if finished is not None:
            return RunResult.open(finished)
    with suppress(DataError):
        if stopped is not None:
            return resume(stopped, data_dir=data_root, progress=progress)
    return run(config, data_dir=data_root, progress=progress)


def _key(folder: Path) -> str:
    entries = journal.read(journal.journal_path(folder))
    return str(entries[0].event["key"]) if entries else ""


class Reporter(Silent):
    """Tells Tune each tested round's score; the last one comes with the trial's figures."""

    def __init__(self, config: ExperimentConfig, report: bool) -> None:
        self._report = report
        self._largest = config.levels.largest.name
        self._rounds = config.rounds

    def update(self, record: RoundRecord, row: Row) -> None:
        tested = global_scores(record.scores, self._largest)
        if not self._report or tested is None or record.round_number >= self._rounds:
            return
        try:
            tune.report({"round": record.round_number, "score": first(tested.overall)})
        except SystemExit:  # the scheduler ends this trial; its state is kept
            raise Interrupted(0) from None
