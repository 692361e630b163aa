"""Training and testing of clients that keep layers to themselves.

What a client keeps is a state of its own: a job is given it and returns the new one beside its
sum, and it never is part of the sum. So a job stays pure, and the driver decides with the round
whether the new state counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from heterofl_ray.clients.calibration import needs_calibration
from heterofl_ray.clients.group_sum import GroupSum
from heterofl_ray.clients.jobs import CalibrateJob, EvaluateJob, Parameters, TrainJob
from heterofl_ray.clients.scoring import Score
from heterofl_ray.clients.update import LocalUpdate
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.mixes import Level
from heterofl_ray.submodels.plan import SubmodelPlan


@dataclass(frozen=True)
class PrivateTrainJob(TrainJob):
    """Local training in which the tensors ``private`` stay with each client.

    A client that takes part for the first time begins with the server's values of them. They count
    as moved then, unless nothing is ever shared: such a client makes its first model by itself.
    """

    private: frozenset[str]

    @property
    def keeps(self) -> int:
        return len(self.clients)

    def run(
        self, bench: Workbench, parameters: Parameters, *states: Parameters | None
    ) -> tuple[Any, ...]:
        """The reports, the sum of what is shared, then each client's new state.

        None in place of a state: the update was rejected, the old state stays.
        """
        shared = [name for name in parameters if name not in self.private]
        group = GroupSum(bench, self.cut, parameters, self.labels(bench), shared)
        reports, kept = [], list[Parameters | None]()
        for client, state in zip(self.clients, states, strict=True):
            start = {**parameters, **(state or {})}
            report, update = self.train(bench, group, client, start, time.perf_counter())
            held = update.parameters if bench.sliced else start
            returned = _size(held, shared)
            first = _size(held, self.private) if state is None and shared else 0
            reports.append(replace(report, moved=returned + first, returned=returned))
            kept.append(self._state(bench, start, update) if report.rejected is None else None)
        return reports, group.result(), *kept

    def _state(self, bench: Workbench, start: Parameters, update: LocalUpdate) -> Parameters:
        """The private tensors after training; rows of labels the client lacks stay as they were."""
        layout = bench.layout(self.level)
        own = SubmodelPlan.of({name: layout[name] for name in self.private}, labels=update.labels)
        state = {name: start[name].to("cpu", copy=True) for name in sorted(self.private)}
        own.scatter(state, {name: update.parameters[name].cpu() for name in state})
        return state


def _size(tensors: Parameters, names: Iterable[str]) -> int:
    return sum(tensors[name].numel() for name in names)


@dataclass(frozen=True)
class ClientTestJob:
    """Scores of one client's own model: on the whole test set, and on the client's part of it.

    Static batch norms get their statistics from the client's own training examples.
    """

    level: Level
    client: int

    def run(self, bench: Workbench, parameters: Parameters, state: Parameters) -> dict[str, Score]:
        own = {**parameters, **state}
        moments = None
        if needs_calibration(bench.model(self.level)):
            start, stop = (int(n) for n in bench.data.train.offsets[self.client : self.client + 2])
            moments = CalibrateJob(self.level, start, stop).run(bench, own)
        whole = EvaluateJob(self.level, 0, bench.data.test_size, owner=self.client)
        return whole.run(bench, own, moments)
