"""Optuna's part: the storage, the samplers, and what each trial is there.

A trial of ours is an Optuna trial with attributes: ``settings`` (the point), ``price``, ``hash`` of
its config, ``runs`` and ``measured`` when it was trained, ``why`` or ``error`` when it was not.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from heterofl_ray.errors import ConfigError
from heterofl_ray.tracking.destination import without_password
from heterofl_ray.tuning.settings import SweepSettings

DATABASE = "optuna.db"


def storage_url(settings: SweepSettings, folder: Path) -> str:
    return settings.storage or f"sqlite:///{folder.absolute() / DATABASE}"


def open_storage(settings: SweepSettings, folder: Path) -> RDBStorage:
    """Optuna's database; one that cannot be reached is named before anything is trained."""
    url = storage_url(settings, folder)
    with quiet():
        try:
            return RDBStorage(url)
        except (SQLAlchemyError, ImportError, RuntimeError, ValueError, OSError) as error:
            reason = str(error).strip().splitlines()[0]
            raise ConfigError.of(
                "sweep.storage", without_password(url), f"cannot be opened ({reason})"
            ) from None


@contextmanager
def quiet() -> Iterator[None]:
    """Without Optuna's lines about every trial, nor its notes on what is experimental."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            # a Gaussian process takes its time
            warnings.filterwarnings("ignore", message="Define-by-run function")
            yield
    finally:
        optuna.logging.set_verbosity(before)


def make_sampler(settings: SweepSettings, known: int) -> BaseSampler:
    """The sampler; ``known`` trials in the storage, so that a resumed one does not repeat draws.

    Its first trials are drawn at random: a quarter, ten at most. A generation of NSGA-II is a
    quarter of the trials, so that there are several.
    """
    state = np.random.SeedSequence((settings.seed, known)).generate_state(1)
    seed, quarter = int(state[0]), settings.trials // 4
    startup = min(10, max(4, quarter))
    match settings.sampler:
        case "tpe":
            return optuna.samplers.TPESampler(
                seed=seed, n_startup_trials=startup, multivariate=True, group=True
            )
        case "nsga2":
            size = min(50, max(4, quarter))
            return optuna.samplers.NSGAIISampler(seed=seed, population_size=size)
        case "gp":
            return optuna.samplers.GPSampler(
                seed=seed, n_startup_trials=startup, warn_independent_sampling=False
            )
        case _:  # a grid's points are enqueued, each with all its values
            return optuna.samplers.RandomSampler(seed=seed)


def was_begun(trial: FrozenTrial) -> bool:
    """Whether it was handed to a trainer; others were left out before."""
    return "begun" in trial.user_attrs


def interrupted(study: optuna.Study) -> list[FrozenTrial]:
    """Trials that a stopped sweep left unfinished."""
    running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    return [trial for trial in running if was_begun(trial)]
