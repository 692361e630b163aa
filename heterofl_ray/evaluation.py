"""Tests of the global model and of every level's sub-model, as jobs on the pool.

Static batch norms are calibrated first, over all clients' training data. A test is a generator of
batches of jobs, so that it can go on while the next round trains.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from heterofl_ray.clients.calibration import needs_calibration
from heterofl_ray.clients.compiled_moments import calibration_batch
from heterofl_ray.clients.jobs import CalibrateJob, EvaluateJob
from heterofl_ray.clients.private import ClientTestJob
from heterofl_ray.clients.scoring import Score
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.execution.backend import Backend, Batch, Slice
from heterofl_ray.execution.failures import ObjectsLost, ServerLost
from heterofl_ray.execution.scheduling import ranges
from heterofl_ray.mixes import Level

Metrics = dict[str, float]

# Sizes of parts depend on the data alone, so that sums are the same however many workers share
# them; and there are never so many that handing them out would take the time.
LEAST_IMAGES, LEAST_WINDOWS = 1000, 64
MOST_PARTS = 200


@dataclass(frozen=True)
class Scores:
    """Metrics of one model: on the whole test set, and on each client's own part of it."""

    overall: Metrics
    local: Metrics
    moments: Any
    """The static batch norm statistics it was tested with, as the backend's handle, or None."""

    @property
    def goodness(self) -> float:
        """One number, larger being better: the first metric, or perplexity below zero."""
        name, value = next(iter(self.overall.items()), ("", 0.0))
        return -value if name == "perplexity" else value


Model = tuple[Level, Slice]


Steps = Generator[Batch, list[Any], dict[str, Scores]]
"""A test: batches of jobs, each given its results; at last the scores by name."""

GLOBAL = "global"
"""The name of scores that are of no level. Where there are none, the largest level's are meant."""


def global_scores(scores: Mapping[str, Scores], largest: str) -> Scores | None:
    return scores.get(GLOBAL) or scores.get(largest)


def by_level(scores: Mapping[str, Scores]) -> dict[str, Scores]:
    return {level: found for level, found in scores.items() if level != GLOBAL}


class Evaluation:
    """A test under way, of one state of the global model."""

    def __init__(
        self, bench: Workbench, backend: Backend, test: Callable[[Workbench, Backend], Steps]
    ) -> None:
        self._start: Callable[[], Steps] = partial(test, bench, backend)
        self._scores: dict[str, Scores] | None = None
        self._lost: ObjectsLost | None = None
        self._begin()

    def _begin(self) -> None:
        self._steps = self._start()
        self._batch: Batch = next(self._steps)

    def advance(self) -> None:
        """Go on to the next jobs if the last ones are done; never waits."""
        while self._scores is None and self._lost is None and self._batch.done():
            self._next()

    def finish(self) -> dict[str, Scores]:
        """Scores by level and `GLOBAL`; waits for them.

        `ObjectsLost`: the slices cannot be had any more, and another test must be made.
        """
        while self._scores is None:
            if self._lost is not None:
                raise self._lost
            self._next()
        return self._scores

    def _next(self) -> None:
        try:
            self._batch = self._steps.send(self._batch.results())
        except StopIteration as end:
            self._scores = end.value
        except ObjectsLost as loss:
            self._batch.abandon()
            self._lost = loss  # the round that is trained meanwhile need not hear of it
        except ServerLost:
            self._batch.abandon()
            self._begin()  # the slices are still there: it can go on with a new server
            raise


def evaluate_slices(models: Sequence[Model], bench: Workbench, backend: Backend) -> Steps:
    """Calibrate every level's slice, then test every one."""
    calibration = [
        (CalibrateJob(level, start, stop), parameters)
        for level, parameters in models
        if needs_calibration(bench.model(level))
        for start, stop in _training_parts(bench, level)
    ]
    gathered: dict[Level, list[Any]] = {}
    for (job, _), part in zip(calibration, (yield backend.test(calibration)), strict=True):
        gathered.setdefault(job.level, []).append(part)
    moments = {level: backend.pool(parts) for level, parts in gathered.items()}

    tests = [
        (EvaluateJob(level, start, stop), parameters, moments.get(level))
        for level, parameters in models
        for start, stop in _test_parts(bench)
    ]
    totals: dict[tuple[Level, str], Score] = {}
    for (test, _, _), scores in zip(tests, (yield backend.test(tests)), strict=True):
        for name, score in scores.items():
            totals[test.level, name] = totals.get((test.level, name), Score()) + score

    def metrics(level: Level, name: str) -> Metrics:
        found = totals.get((level, name))
        return {} if found is None else found.metrics(bench.data.dataset.info)

    return {
        level.name: Scores(metrics(level, "global"), metrics(level, "local"), moments.get(level))
        for level, _ in models
    }


@dataclass(frozen=True)
class ClientModel:
    """A client's own model: what it keeps, laid over its level's slice."""

    client: int
    level: Level
    parameters: Slice
    state: Any


def summed_by_level(
    levels: Sequence[Level], scores: Iterable[Mapping[str, Score]]
) -> dict[str, dict[str, Score]]:
    """The scores of models that are of these levels, over all of them and by level."""
    totals: dict[str, dict[str, Score]] = {}
    for level, found in zip(levels, scores, strict=True):
        for whose in (GLOBAL, level.name):
            total = totals.setdefault(whose, {})
            for name, score in found.items():
                total[name] = total.get(name, Score()) + score
    return totals


def evaluate_clients(models: Sequence[ClientModel], bench: Workbench, backend: Backend) -> Steps:
    """Test clients' own models, for all clients and by level.

    Overall is the mean over clients of what their models score on the whole test set; Local is
    each client's model on that client's own part of it.
    """
    tests = [(ClientTestJob(m.level, m.client), m.parameters, m.state) for m in models]
    levels = [model.level for model in models]
    totals = summed_by_level(levels, (yield backend.test(tests)))
    info = bench.data.dataset.info
    found = {
        whose: {name: score.metrics(info) for name, score in total.items()}
        for whose, total in totals.items()
    }
    return {
        whose: Scores(found[whose]["global"], found[whose].get("local", {}), None)
        for whose in (GLOBAL, *(level.name for level in bench.config.levels.levels))
        if whose in found
    }


def _training_parts(bench: Workbench, level: Level) -> list[tuple[int, int]]:
    """Parts of all clients' training examples, in whole batches whatever their number."""
    return parts(len(bench.data.train.indices), calibration_batch(bench, level), LEAST_IMAGES)


def _test_parts(bench: Workbench) -> list[tuple[int, int]]:
    if bench.data.task == "text":
        window = bench.config.text.window
        return parts(bench.data.test_size, window, LEAST_WINDOWS * window)
    return parts(bench.data.test_size, 1, LEAST_IMAGES)


def parts(total: int, unit: int, least: int) -> list[tuple[int, int]]:
    """(start, stop) of consecutive parts: whole multiples of ``unit`` but for the last.

    Each of at least ``least``, at most `MOST_PARTS` of them; a last one of a single example joins
    the one before it, as a last batch does.
    """
    size = -(-max(least, -(-total // MOST_PARTS)) // unit) * unit
    cut = ranges(total, size)
    if len(cut) > 1 and cut[-1][1] - cut[-1][0] == 1:
        cut[-2:] = [(cut[-2][0], total)]
    return cut
