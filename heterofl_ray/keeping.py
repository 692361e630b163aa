"""Keeping a run's rounds on disk: when a checkpoint is due, and what a disk that fails means.

A checkpoint that cannot be written costs nothing but itself: the run goes on, says so once, and
tries again after the next round. The one before it stays whole.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heterofl_ray import checkpoint
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import DataError
from heterofl_ray.evaluation import global_scores
from heterofl_ray.execution.backend import Backend, Kept
from heterofl_ray.simulation import RoundRecord

logger = logging.getLogger(__name__)

CHECKPOINTS = "checkpoints"


class Keeper:
    """The checkpoints of one run. ``kept`` is the last round that is known to be on disk."""

    def __init__(self, config: ExperimentConfig, folder: Path, experiment: str) -> None:
        self.kept = 0
        self._config = config
        self._place = (folder / CHECKPOINTS).absolute()
        self._experiment = experiment
        self._writing = 0
        self._overdue = False

    def is_due(self, backend: Backend, round_number: int) -> bool:
        """Whether a round is to be kept: by the settings, or since the one before could not be."""
        self._look(backend, wait=False)
        every, last = self._config.checkpoint.every, round_number == self._config.rounds
        return last or self._overdue or bool(every and round_number % every == 0)

    def keep(
        self, backend: Backend, record: RoundRecord, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        self.settle(backend)
        tested = global_scores(record.scores, self._config.levels.largest.name)
        progress = checkpoint.Progress(
            record.round_number,
            self._experiment,
            list(rows),
            None if tested is None else tested.goodness,
        )
        settings = self._config.checkpoint
        self._writing = record.round_number
        backend.keep(
            record.state, checkpoint.write, self._place, progress, settings.keep, settings.best
        )

    def settle(self, backend: Backend) -> None:
        """Wait for what is being written."""
        self._look(backend, wait=True)

    def older(self) -> Kept | None:
        """What the disk has of this run, for a backend that has lost everything else."""
        try:
            found = checkpoint.newest(self._place)
        except DataError:  # the first one is not whole yet
            return None
        return found.progress.round_number, found.parameters, found.clients

    def _look(self, backend: Backend, wait: bool) -> None:
        if not self._writing:
            return
        problem = backend.kept(wait)
        if problem is None:  # still under way
            return
        if problem and not self._overdue:
            logger.warning(
                "the checkpoint of round %d could not be written: %s; "
                "it is tried again after each round",
                self._writing,
                problem,
            )
        if not problem:
            self.kept = self._writing
        self._overdue, self._writing = bool(problem), 0
