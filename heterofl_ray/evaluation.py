"""Tests of the global model and of every level's sub-model, as jobs on the pool.

Static batch norms are calibrated first, over all clients' training data.
"""

from __future__ import annotations

from dataclasses import dataclass

from heterofl_ray.clients.calibration import Moments, needs_calibration
from heterofl_ray.clients.jobs import CalibrateJob, EvaluateJob
from heterofl_ray.clients.scoring import Score
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.execution.backend import Backend
from heterofl_ray.execution.scheduling import ranges
from heterofl_ray.mixes import Level
from heterofl_ray.parameter_server import ParameterServer

Metrics = dict[str, float]

# Parts of fixed size, so that sums are the same however many workers share them.
CLIENTS_PER_JOB = 10
WINDOWS_PER_JOB = 128
IMAGES_PER_JOB = 2000


@dataclass(frozen=True)
class Scores:
    """Metrics of one model: on the whole test set, and on each client's own part of it."""

    overall: Metrics
    local: Metrics
    moments: Moments | None
    """The static batch norm statistics it was tested with."""


def evaluate(bench: Workbench, server: ParameterServer, backend: Backend, level: Level) -> Scores:
    """Scores of the level's slice of the global model."""
    parameters = server.cut(level)
    moments = calibrate(bench, backend, level, parameters)
    part = (
        WINDOWS_PER_JOB * bench.config.text.window if bench.data.task == "text" else IMAGES_PER_JOB
    )
    work = [
        (EvaluateJob(level, start, stop), parameters, moments)
        for start, stop in ranges(bench.data.test_size, part)
    ]
    totals: dict[str, Score] = {}
    for scores in backend.run(work):
        for name, score in scores.items():
            totals[name] = totals.get(name, Score()) + score
    task = bench.data.task
    return Scores(
        overall=totals["global"].metrics(task),
        local=totals["local"].metrics(task) if "local" in totals else {},
        moments=moments,
    )


def calibrate(
    bench: Workbench, backend: Backend, level: Level, parameters: object
) -> Moments | None:
    """Statistics of the level's static batch norms; None where it has none."""
    if not needs_calibration(bench.model(level)):
        return None
    total = Moments()
    work = [
        (CalibrateJob(level, tuple(range(start, stop))), parameters)
        for start, stop in ranges(bench.config.clients, CLIENTS_PER_JOB)
    ]
    for moments in backend.run(work):
        total.add(moments)
    return total
