"""Everything in this process, one job after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from heterofl_ray.clients.calibration import Moments, pooled
from heterofl_ray.clients.jobs import ClientReport
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.execution import freed_memory
from heterofl_ray.execution.backend import Clients, Kept, State, TestWork, TrainWork
from heterofl_ray.parameter_server import ParameterServer
from heterofl_ray.state import ClientState
from heterofl_ray.submodels.selectors import Cut


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

    def __init__(self, bench: Workbench, server: type[ParameterServer] = ParameterServer) -> None:
        self.committed = 0
        self.fallback: Callable[[], Kept | None] | None = None
        self.state = State({})
        self._bench = bench
        self._server = server(bench)
        self._new: dict[int, Mapping[str, Tensor]] = {}
        """What clients keep from the round under way."""
        self._problem = ""
        freed_memory.keep_it()
        self._threads_before = torch.get_num_threads()
        torch.set_num_threads(bench.config.execution.threads)

    @property
    def workers(self) -> int:
        return 1

    def cut(self, cut: Cut) -> dict[str, Tensor]:
        return self._server.cut(cut)

    def train(
        self, work: Sequence[TrainWork], meanwhile: Callable[[], None] | None = None
    ) -> list[ClientReport]:
        self._new = {}
        reports: list[ClientReport] = []
        for job, *inputs in work:
            group_reports, update, *kept = job.run(self._bench, *inputs)
            self._server.accumulate(update)
            reports += group_reports
            for client, state in zip(job.clients, kept, strict=False):
                if state is not None:
                    self._new[client] = state
        return reports

    def commit(self, round_number: int) -> State:
        self._server.commit(round_number)
        self.committed = round_number
        # a copy: the next round changes the parameters in place
        server = {name: tensor.clone() for name, tensor in self._server.state.items()}
        new = {client: ClientState(round_number, kept) for client, kept in self._new.items()}
        self.state = State(server, {**self.state.clients, **new})
        return self.state

    def test(self, work: Sequence[TestWork]) -> LocalBatch:
        return LocalBatch(self._bench, work)

    def pool(self, moments: Sequence[Moments]) -> Moments:
        return pooled(moments)

    def fetch(self, handle: Any) -> Any:
        return handle

    def keep(self, state: State, write: Callable[..., None], *arguments: Any) -> None:
        try:
            write(state.server, *arguments, state.clients, self.fetch)
            self._problem = ""
        except OSError as error:
            self._problem = error.strerror or str(error)

    def kept(self, wait: bool) -> str:
        return self._problem

    def restore(
        self, round_number: int, parameters: Mapping[str, Tensor], clients: Clients
    ) -> None:
        self._server.load(parameters)
        self.committed, self.state = round_number, State(dict(parameters), clients)

    def recover(self) -> None:
        raise NotImplementedError("a server in this process is not lost without the process")

    def parameters(self) -> dict[str, Tensor]:
        return {name: tensor.cpu() for name, tensor in self._server.parameters.items()}

    def clients(self) -> dict[int, Mapping[str, Tensor]]:
        return {client: kept.tensors for client, kept in self.state.clients.items()}

    def close(self) -> None:
        torch.set_num_threads(self._threads_before)
