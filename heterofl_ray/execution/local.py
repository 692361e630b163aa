"""Everything in this process, one job after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from heterofl_ray.clients.calibration import Moments, pooled
from heterofl_ray.clients.jobs import ClientReport
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.execution.backend import TestWork, TrainWork
from heterofl_ray.mixes import Level
from heterofl_ray.parameter_server import ParameterServer


class LocalBatch:
    """Jobs that run when their results are asked for."""

    def __init__(self, bench: Workbench, work: Sequence[TestWork]) -> None:
        self._bench = bench
        self._work = work

    def done(self) -> bool:
        return True

    def abandon(self) -> None:
        self._work = ()

    def results(self) -> list[Any]:
        return [job.run(self._bench, *inputs) for job, *inputs in self._work]


class LocalBackend:
    """The server and one workbench. Threads are as the config says while it is open."""

    def __init__(self, bench: Workbench) -> None:
        self.committed = 0
        self.fallback: Callable[[], tuple[int, Mapping[str, Tensor]] | None] | None = None
        self.state: dict[str, Tensor] = {}
        self._bench = bench
        self._server = ParameterServer(bench)
        self._threads_before = torch.get_num_threads()
        torch.set_num_threads(bench.config.execution.threads)

    @property
    def workers(self) -> int:
        return 1

    def cut(self, level: Level) -> dict[str, Tensor]:
        return self._server.cut(level)

    def train(
        self, work: Sequence[TrainWork], meanwhile: Callable[[], None] | None = None
    ) -> list[ClientReport]:
        reports: list[ClientReport] = []
        for job, parameters in work:
            group_reports, update = job.run(self._bench, parameters)
            self._server.accumulate(update)
            reports += group_reports
        return reports

    def commit(self, round_number: int) -> dict[str, Tensor]:
        self._server.commit()
        self.committed = round_number
        # a copy: the next round changes the parameters in place
        self.state = {name: tensor.clone() for name, tensor in self._server.parameters.items()}
        return self.state

    def test(self, work: Sequence[TestWork]) -> LocalBatch:
        return LocalBatch(self._bench, work)

    def pool(self, moments: Sequence[Moments]) -> Moments:
        return pooled(moments)

    def fetch(self, handle: Any) -> Any:
        return handle

    def keep(self, state: dict[str, Tensor], write: Callable[..., None], *arguments: Any) -> None:
        write(state, *arguments)

    def restore(self, round_number: int, parameters: Mapping[str, Tensor]) -> None:
        self._server.load(parameters)
        self.committed = round_number

    def recover(self) -> None:
        raise NotImplementedError("a server in this process is not lost without the process")

    def parameters(self) -> dict[str, Tensor]:
        return {name: tensor.cpu() for name, tensor in self._server.parameters.items()}

    def close(self) -> None:
        torch.set_num_threads(self._threads_before)
