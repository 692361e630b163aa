"""HeteroFL: E. Diao, J. Ding, V. Tarokh, "HeteroFL: Computation and Communication Efficient
Federated Learning for Heterogeneous Clients", ICLR 2021. This file is its Algorithm 1.

Where we differ from the paper's text, settled against its printed figures or by need:
- a cohort has ceil(C·M) clients, at least one;
- gradients are clipped, and the learning rate falls at milestones (the paper's Table 6);
- elements that no client of the round holds keep their value;
- every level's sub-model is tested too, with its Scaler on, as it was trained.

Other methods are classes of this one (`methods`), each with another answer to one of the questions
that a round asks: who takes part, with which sub-model, doing what, and how it is tested.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

from torch import Tensor

from heterofl_ray.clients.jobs import ClientReport, TrainJob
from heterofl_ray.clients.trainers.choice import settle_trainers
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError, RunFailed
from heterofl_ray.evaluation import Evaluation, Scores, evaluate_slices
from heterofl_ray.execution.backend import Backend, State
from heterofl_ray.execution.failures import ObjectsLost, ServerLost
from heterofl_ray.execution.scheduling import group_clients
from heterofl_ray.mixes import Level
from heterofl_ray.parameter_server import ParameterServer
from heterofl_ray.privacy import Accountant, check_target
from heterofl_ray.submodels.levels import assign_levels, sample_cohort
from heterofl_ray.submodels.selectors import Cut

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
    epsilon: float | None = None
    """What the rounds so far tell about any one client; None: that is not bounded."""

    @property
    def loss(self) -> float:
        """Mean training loss over the examples of the clients that count."""
        counted = [report for report in self.reports if report.rejected is None]
        examples = sum(report.examples for report in counted)
        total = sum(report.loss * report.examples for report in counted)
        return total / examples if examples else float("nan")

    @property
    def megabytes(self) -> float:
        """Moved to the clients."""
        return sum(report.moved for report in self.reports) * 4 / MEGABYTE

    @property
    def megabytes_up(self) -> float:
        """Moved back."""
        return sum(report.sent_back for report in self.reports) * 4 / MEGABYTE


class Simulation:
    """The loop over rounds. What runs where is the backend's business."""

    server: ClassVar[type[ParameterServer]] = ParameterServer
    """What holds and changes the global model."""
    trainers: ClassVar[tuple[str, ...]] = ()
    """The trainers that know the method's local steps; the first is the rule. Empty: all do."""
    averages: ClassVar[bool] = True
    """Whether a round ends with the clients' means, and not with more than these."""
    own_levels: ClassVar[bool] = False
    """Whether a client has one level for the whole run, whatever ``assignment`` says."""

    @classmethod
    def settle(cls, config: ExperimentConfig) -> ExperimentConfig:
        """The config as the method runs it; what it cannot do is refused.

        Done once before a run; a settled config stays as it is.
        """
        for name, used in (
            ("server.robust", config.server.robust != "none"),
            ("privacy.noise", config.privacy.on),
        ):
            if used and not cls.averages:
                raise ConfigError(
                    f"{name} is not for method={config.method}: its rounds do not end with means "
                    "over clients, which it would change"
                )
        check_target(config, cls.own_levels)
        return settle_trainers(config, cls.trainers) if cls.trainers else config

    @classmethod
    def check(cls, bench: Workbench) -> None:
        """Refuse a model or data that the method can do nothing with."""

    @classmethod
    def example_flops(
        cls, config: ExperimentConfig, level: str, forward: Mapping[str, float]
    ) -> float:
        """What an example's way forward takes a client of ``level``, given each level's model's."""
        return forward[level]

    def __init__(self, bench: Workbench, backend: Backend) -> None:
        self.config = bench.config
        self.bench = bench
        self.backend = backend
        self._losses = 0
        """How often the server was lost since a round was last done."""
        private = self.config.privacy.on
        self._accountant = Accountant(self.config, self.own_levels) if private else None

    def run_round(
        self, t: int, meanwhile: Callable[[], None] | None = None
    ) -> tuple[list[ClientReport], State]:
        """Round t of Algorithm 1: what the clients report, and the new global model's handle."""
        # S_t <- random set of clients; each has a level by what it can do
        cohort, levels = self.cohort(t)

        # W_m <- W_g[:d_m, :k_m], cut once for each level
        cuts = [self.cut(t, *chosen) for chosen in zip(cohort, levels, strict=True)]
        slices = {cut: self.backend.cut(cut) for cut in dict.fromkeys(cuts)}

        # each client in parallel: W_m <- ClientUpdate(m, r_m, W_m), added up by level
        work = []
        for cut, clients in group_clients(cohort, cuts, self.config.execution.clients_per_job):
            job = self.job(t, cut, clients)
            work.append((job, slices[cut], *self.states(job)))
        reports = self.backend.train(work, meanwhile)

        # W_g <- for each part, the mean over the clients that hold it
        return reports, self.backend.commit(t)

    # ---- what other methods answer in their own way -----------------------------------------

    def cohort(self, t: int) -> tuple[list[int], list[Level]]:
        """Who takes part in round t, and at which level."""
        drawn = sample_cohort(self.config, self.bench.streams, t)
        return drawn, assign_levels(self.config, self.bench.streams, t, drawn)

    def cut(self, t: int, client: int, level: Level) -> Cut:
        """The sub-model that a client of ``level`` trains in round t."""
        return Cut(level)

    def job(self, t: int, cut: Cut, clients: tuple[int, ...]) -> TrainJob:
        """What the clients do with it."""
        return TrainJob(t, cut, clients, self.config.learning_rate(t))

    def states(self, job: TrainJob) -> list[Any]:
        """What the job's clients kept so far, where it has them keep something; None: nothing."""
        kept = self.backend.state.clients
        clients = job.clients if job.keeps else ()
        return [kept[client].tensors if client in kept else None for client in clients]

    def start_test(self, t: int) -> Evaluation | None:
        """A test of what there is after round t, when one is due."""
        every, last = self.config.evaluate_every, t == self.config.rounds
        if not last and (not every or t % every):
            return None
        mix, when = self.config.levels, self.config.evaluation.levels
        all_levels = when == "always" or (when == "final" and last)
        return self.evaluation(mix.levels if all_levels else mix.levels[:1])

    def evaluation(self, levels: Sequence[Level]) -> Evaluation:
        """Query the static batch norm's statistics and test every one of ``levels``.

        A level's model is its leading slice, whatever its clients trained.
        """
        models = [(level, self.backend.cut(Cut(level))) for level in levels]
        return Evaluation(self.bench, self.backend, partial(evaluate_slices, models))

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
                self.train(t)  # again, where that test took the run back
            before, testing = replace(record, state=self.backend.state), self._begin_test(t)
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
        epsilon = self._accountant.epsilon(t) if self._accountant else None
        return RoundRecord(t, lr, seconds, reports, state, {}, seconds, epsilon)

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

    def final(self) -> tuple[dict[str, Tensor], dict[int, Mapping[str, Tensor]]]:
        """The global model's parameters after the last round, and what clients keep."""
        while True:
            try:
                self.train(self.config.rounds)
                return self.backend.parameters(), self.backend.clients()
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
        """A round with its scores, of a test for which the next round did not wait."""
        started = time.perf_counter()
        scores: dict[str, Scores] = {}
        while testing is not None:
            try:
                scores, testing = testing.finish(), None
            except ObjectsLost as loss:
                testing = self._test_again(record, loss)
                record = replace(record, state=self.backend.state)
            except ServerLost as loss:
                self._recover(loss)
        waited = time.perf_counter() - started
        return replace(record, scores=scores, seconds=record.seconds + waited)

    def _test_again(self, record: RoundRecord, loss: ServerLost) -> Evaluation | None:
        """Its sub-models are lost: go back to its round and cut them anew."""
        self.backend.committed, self.backend.state = record.round_number, record.state
        self._back_to(record.round_number, loss)
        return self._begin_test(record.round_number)
