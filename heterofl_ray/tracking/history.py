"""A row per round, kept as Parquet in the run's folder, finished or not.

Columns: ``round``; ``seconds`` and its parts ``seconds_train``, ``seconds_test`` (0 without one)
and ``seconds_other`` (all else, with keeping the round before); ``lr``; ``loss``;
``megabytes_down`` and ``megabytes_up``; ``client_gflops`` (see `flops`); ``rejected`` updates;
``bounded`` ones, where there is a bound; ``epsilon``, with privacy; ``worker_utilisation``; for
each level X ``clients_X``, ``loss_X`` (of the updates that counted) and ``seconds_X`` (training)
and ``megabytes_X`` (to clients) of all; and, where tested, ``global_…``, ``local_…`` and
``level_X_…`` scores.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.evaluation import Scores, by_level, global_scores
from heterofl_ray.simulation import MEGABYTE, RoundRecord
from heterofl_ray.tracking.flops import Flops
from heterofl_ray.tracking.folder import HISTORY, partial

logger = logging.getLogger(__name__)

Row = dict[str, int | float | None]

SHARE = 0.01
"""Of a run's time that may go into writing the history of rounds so far."""


class History:
    """One row per round, as an Arrow table."""

    def __init__(self, config: ExperimentConfig, flops: Flops | None = None) -> None:
        self._mix = config.levels
        self._bounds = bool(config.update_bound)
        self._flops = flops
        self.rows: list[Row] = []

    def add(self, record: RoundRecord, workers: int = 0, other: float = 0.0) -> Row:
        """The row of a round. ``other``: seconds spent outside of rounds since the last one."""
        test = record.seconds - record.seconds_train if record.scores else 0.0
        seconds = record.seconds + other
        row: Row = {
            "round": record.round_number,
            "seconds": seconds,
            "seconds_train": record.seconds_train,
            "seconds_test": test,
            "seconds_other": seconds - record.seconds_train - test,
            "lr": record.lr,
            "loss": record.loss,
            "megabytes_down": record.megabytes,
            "megabytes_up": record.megabytes_up,
            "client_gflops": self._gflops(record),
            "rejected": sum(report.rejected is not None for report in record.reports),
            "worker_utilisation": _utilisation(record, workers),
        }
        if self._bounds:
            row["bounded"] = sum(report.bounded for report in record.reports)
        if record.epsilon is not None:
            row["epsilon"] = record.epsilon
        for level in self._mix.levels:
            of_level = [report for report in record.reports if report.level == level.name]
            counted = [report for report in of_level if report.rejected is None]
            row[f"clients_{level.name}"] = len(counted)
            row[f"loss_{level.name}"] = (
                sum(report.loss for report in counted) / len(counted) if counted else None
            )
            row[f"seconds_{level.name}"] = sum(report.seconds for report in of_level)
            moved = sum(report.moved for report in of_level)
            row[f"megabytes_{level.name}"] = moved * 4 / MEGABYTE
        for name, value in _flat_scores(record.scores, self._mix.largest.name).items():
            row[name] = value
        self.rows.append(row)
        return row

    def _gflops(self, record: RoundRecord) -> float | None:
        if self._flops is None:
            return None
        return sum(self._flops(report) for report in record.reports) / 1e9

    def table(self) -> pa.Table:
        names = dict.fromkeys(name for row in self.rows for name in row)
        return pa.table({name: [row.get(name) for row in self.rows] for name in names})

    def total(self, name: str) -> float:
        return sum(row.get(name) or 0 for row in self.rows)


class HistoryFile:
    """The history of rounds so far, for readers of a run that goes on or was cut off."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / HISTORY
        self._next = 0.0

    def write_if_due(self, history: History) -> None:
        """Write it unless that would take more than its share of the run's time."""
        if time.perf_counter() >= self._next:
            self.write(history)

    def write(self, history: History) -> None:
        """A disk that fails is left alone: checkpoints have the rows too, and the next may do."""
        started = time.perf_counter()
        scratch = partial(self._path)
        try:
            pq.write_table(history.table(), scratch)
            scratch.replace(self._path)
        except OSError as error:
            logger.warning("%s cannot be written: %s", self._path, error)
            scratch.unlink(missing_ok=True)
        now = time.perf_counter()
        self._next = now + (now - started) / SHARE


def _utilisation(record: RoundRecord, workers: int) -> float | None:
    """The share of the workers' time in training in which clients were trained."""
    if not workers or not record.seconds_train:
        return None
    busy = sum(report.seconds for report in record.reports)
    return busy / (record.seconds_train * workers)


def _flat_scores(scores: Mapping[str, Scores], largest: str) -> dict[str, float]:
    flat: dict[str, float] = {}
    found = global_scores(scores, largest)
    if found is not None:
        flat |= {f"global_{name}": value for name, value in found.overall.items()}
        flat |= {f"local_{name}": value for name, value in found.local.items()}
    for level, result in by_level(scores).items():
        flat |= {f"level_{level}_{name}": value for name, value in result.overall.items()}
    return flat
