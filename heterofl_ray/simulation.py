"""HeteroFL: E. Diao, J. Ding, V. Tarokh, "HeteroFL: Computation and Communication Efficient
Federated Learning for Heterogeneous Clients", ICLR 2021. This file is its Algorithm 1.

Where we differ from the paper's text, settled against its printed figures or by need:
- a cohort has ceil(C·M) clients, at least one;
- gradients are clipped, and the learning rate falls at milestones (the paper's Table 6);
- elements that no client of the round holds keep their value;
- every level's sub-model is tested too, with its Scaler on, as it was trained.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from heterofl_ray.clients.jobs import ClientReport, TrainJob
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.errors import RunFailed
from heterofl_ray.evaluation import Evaluation, Scores
from heterofl_ray.execution.backend import Backend
from heterofl_ray.execution.failures import ServerLost
from heterofl_ray.execution.scheduling import group_clients
from heterofl_ray.submodels.levels import assign_levels, sample_cohort

logger = logging.getLogger(__name__)

MEGABYTE = 1024**2


@dataclass(frozen=True)
class RoundRecord:
    """What one round did."""

    round_number: int
    lr: float
    seconds: float
    reports: list[ClientReport]
    state: Any
    """The global model after it, as the backend's handle."""
    scores: Mapping[str, Scores] = field(default_factory=dict)
    """By level, when a test was due; the largest level is the global model."""
    seconds_train: float = 0.0
    """Of ``seconds``; the rest is the test, or waiting for it."""

    @property
    def loss(self) -> float:
        """Mean training loss over the examples of the clients that count."""
        counted = [report for report in self.reports if report.rejected is None]
        examples = sum(report.examples for report in counted)
        total = sum(report.loss * report.examples for report in counted)
        return total / examples if examples else float("nan")

    @property
    def megabytes(self) -> float:
        """Moved to the clients; the same comes back."""
        return sum(report.moved for report in self.reports) * 4 / MEGABYTE


class Simulation:
    """The loop over rounds. What runs where is the backend's business."""

    def __init__(self, bench: Workbench, backend: Backend) -> None:
        self.config = bench.config
        self.bench = bench
        self.backend = backend
        self._losses = 0
        """How often the server was lost since a round was last done."""

    def run_round(
        self, t: int, meanwhile: Callable[[], None] | None = None
    ) -> tuple[list[ClientReport], Any]:
        """Round t of Algorithm 1: what the clients report, and the new global model's handle."""
        config, streams, lr = self.config, self.bench.streams, self.config.learning_rate(t)

        # S_t <- random set of clients; each has a level by what it can do
        cohort = sample_cohort(config, streams, t)
        levels = assign_levels(config, streams, t, cohort)

        # W_m <- W_g[:d_m, :k_m], cut once for each level
        slices = {level: self.backend.cut(level) for level in dict.fromkeys(levels)}

        # each client in parallel: W_m <- ClientUpdate(m, r_m, W_m), added up by level
        groups = group_clients(cohort, levels, config.execution.clients_per_job)
        work = [(TrainJob(t, level, clients, lr), slices[level]) for level, clients in groups]
        reports = self.backend.train(work, meanwhile)

        # W_g <- for each part, the mean over the clients that hold it
        return reports, self.backend.commit(t)

    def start_test(self, t: int) -> Evaluation | None:
        """Query the static batch norm's statistics and test, when a test is due."""
        every, last = self.config.evaluate_every, t == self.config.rounds
        if not last and (not every or t % every):
            return None
        mix, when = self.config.levels, self.config.evaluation.levels
        all_levels = when == "always" or (when == "final" and last)
        levels = mix.levels if all_levels else mix.levels[:1]
        models = [(level, self.backend.cut(level)) for level in levels]
        return Evaluation(self.bench, self.backend, models)

    # ---- the loop, whatever is lost on the way ----------------------------------------------

    def rounds(self) -> Iterator[RoundRecord]:
        """The rounds that are still to do, each when it is done and tested."""
        for t in range(self.backend.committed + 1, self.config.rounds + 1):
            started = time.perf_counter()
            record = self.train(t)
            scores = self.test(t)
            seconds = time.perf_counter() - started
            yield replace(record, scores=scores, seconds=seconds, state=self.backend.state)

    def rounds_overlapped(self) -> Iterator[RoundRecord]:
        """The same, each tested while the next one trains."""
        before: RoundRecord | None = None
        testing: Evaluation | None = None
        for t in range(self.backend.committed + 1, self.config.rounds + 1):
            record = self.train(t, testing.advance if testing else None)
            if before is not None:
                yield self._tested(before, testing)
            before, testing = record, self._begin_test(t)
        if before is not None:
            yield self._tested(before, testing)

    def train(self, t: int, meanwhile: Callable[[], None] | None = None) -> RoundRecord:
        """Round t, and again any before it that went down with a server."""
        started = time.perf_counter()
        reports: list[ClientReport] = []
        state: Any = None
        while self.backend.committed < t:
            try:
                reports, state = self.run_round(self.backend.committed + 1, meanwhile)
                self._losses = 0
            except ServerLost as loss:
                self._recover(loss)
        seconds = time.perf_counter() - started
        lr = self.config.learning_rate(t)
        return RoundRecord(t, lr, seconds, reports, state, seconds_train=seconds)

    def test(self, t: int) -> dict[str, Scores]:
        """Scores by level after round t, when a test is due."""
        while True:
            testing = self._begin_test(t)
            try:
                return testing.finish() if testing else {}
            except ServerLost as loss:
                self._back_to(t, loss)

    def _begin_test(self, t: int) -> Evaluation | None:
        while True:
            try:
                return self.start_test(t)
            except ServerLost as loss:
                self._back_to(t, loss)

    def final(self) -> dict[str, Tensor]:
        """The global model's parameters after the last round."""
        while True:
            try:
                self.train(self.config.rounds)
                return self.backend.parameters()
            except ServerLost as loss:
                self._recover(loss)

    def _back_to(self, t: int, loss: ServerLost) -> None:
        self._recover(loss)
        self.train(t)

    def _recover(self, loss: ServerLost) -> None:
        """Have a server again, unless it is lost again and again without a round being done."""
        self._losses += 1
        if self._losses > self.config.execution.tries:
            raise RunFailed(f"the parameter server was lost {self._losses} times: {loss}")
        logger.warning("the parameter server is rebuilt: %s", str(loss).splitlines()[0])
        self.backend.recover()

    def _tested(self, record: RoundRecord, testing: Evaluation | None) -> RoundRecord:
        started = time.perf_counter()
        scores = self._finish(testing)
        waited = time.perf_counter() - started
        return replace(record, scores=scores, seconds=record.seconds + waited)

    def _finish(self, testing: Evaluation | None) -> dict[str, Scores]:
        """The scores of a test whose round is no longer the last: its slices must still exist."""
        while True:
            try:
                return testing.finish() if testing else {}
            except ServerLost as loss:
                self._recover(loss)
