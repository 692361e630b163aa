"""The two kinds of actors: workers that run jobs, and the servers that hold the model."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ray
import torch
from torch import Tensor

from heterofl_ray.clients.calibration import Moments, pooled
from heterofl_ray.clients.group_sum import GroupUpdate
from heterofl_ray.clients.jobs import CalibrateJob, EvaluateJob, TrainJob, preparations
from heterofl_ray.clients.private import ClientTestJob
from heterofl_ray.clients.scoring import Score
from heterofl_ray.clients.workbench import Workbench, resolve_device
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data import shipping
from heterofl_ray.execution import freed_memory
from heterofl_ray.execution.backend import Clients
from heterofl_ray.execution.own_ray import step_back
from heterofl_ray.execution.transport import Stored, register_tensors
from heterofl_ray.models import registry
from heterofl_ray.parameter_server import ParameterServer
from heterofl_ray.submodels.selectors import Cut

Parameters = Mapping[str, Tensor]


@dataclass(frozen=True)
class Setup:
    """All that an actor needs to know about the run."""

    config: ExperimentConfig
    data_root: Path
    data_folders: Mapping[str, str]
    """By name of the data set, its folder's name, which says its content."""
    families: Mapping[str, registry.Family]
    """The driver's models, users' own included."""
    shards: tuple[tuple[str, ...], ...]
    """Names of the tensors on each server."""
    server: type[ParameterServer] = ParameterServer
    """The method's."""

    def bench(self, shipped: Sequence[ray.ObjectRef]) -> Workbench:
        """Make this process ready and give it a workbench.

        ``shipped`` refers to the data sets' files, for a node that does not have them.
        """
        register_tensors()
        freed_memory.keep_it()
        torch.set_num_threads(self.config.execution.threads)
        registry.MODELS.update(self.families)
        roots = []
        for name, folder in self.data_folders.items():
            shipment = partial(_parcel, shipped[0], name) if shipped else None
            roots.append(shipping.ensure(self.data_root, name, folder, shipment))
        device = resolve_device(self.config.execution.device)
        return Workbench(self.config, roots[0], device, public_root=roots[-1])


def _parcel(shipped: ray.ObjectRef, name: str) -> shipping.Shipment:
    parcels: Mapping[str, shipping.Shipment] = ray.get(shipped)
    return parcels[name]


@dataclass(frozen=True)
class Place:
    """Where an actor lives."""

    pid: int
    node: str
    gpus: tuple[str, ...]
    gpu_bytes: int
    """Memory of its GPU; 0 on a CPU."""

    @classmethod
    def here(cls, device: torch.device) -> Place:
        context = ray.get_runtime_context()
        on_gpu = device.type == "cuda"
        return cls(
            os.getpid(),
            context.get_node_id(),
            tuple(str(gpu) for gpu in ray.get_gpu_ids()) if on_gpu else (),
            torch.cuda.get_device_properties(device).total_memory if on_gpu else 0,
        )

    def shares(self, other: Place) -> bool:
        """Whether both are on one GPU."""
        return self.node == other.node and bool(set(self.gpus) & set(other.gpus))


class Worker:
    """Runs jobs. Keeps a workbench, never state: a job sent to another worker gives the same."""

    def __init__(self, setup: Setup, shipped: Sequence[ray.ObjectRef] = ()) -> None:
        self._shards = setup.shards
        self._bench = setup.bench(shipped)
        for level in setup.config.levels.levels:
            self._bench.model(level)
        step_back()

    def place(self) -> Place:
        return Place.here(self._bench.device)

    def prepare(self, turn: int) -> None:
        """Have all ready that jobs need. Workers of different turns begin with different things."""
        tasks = preparations(self._bench)
        for index in range(len(tasks)):
            tasks[(turn + index) % len(tasks)]()

    def train(self, job: TrainJob, *inputs: Parameters) -> tuple[Any, ...]:
        """The reports, then one update for each server, then what clients keep.

        ``inputs`` are the slice's parts from each server, then what clients kept so far.
        """
        count = len(self._shards)
        slices, states = inputs[:count], inputs[count:]
        reports, update, *kept = job.run(self._bench, _joined(slices), *states)
        parts = [update.part(names) for names in self._shards]
        return reports, *map(Stored, parts), *map(Stored, kept)

    def calibrate(self, job: CalibrateJob, *slices: Parameters) -> tuple[None, Stored]:
        return None, Stored(job.run(self._bench, _joined(slices)))

    def evaluate(
        self, job: EvaluateJob | ClientTestJob, given: Any, *slices: Parameters
    ) -> dict[str, Score]:
        """``given``: the model's statistics, or what the client keeps."""
        return job.run(self._bench, _joined(slices), given)


class Server:
    """A parameter server as an actor: the same, with each update counted exactly once.

    Updates have numbers within their round. One that comes early waits for its turn, so that sums
    are made in one order; one that comes twice is passed over.
    """

    def __init__(self, setup: Setup, shard: int, shipped: Sequence[ray.ObjectRef] = ()) -> None:
        self._server = setup.server(setup.bench(shipped), setup.shards[shard])
        self._next = 0
        self._early: dict[int, GroupUpdate] = {}

    def place(self) -> Place:
        return Place.here(next(iter(self._server.parameters.values())).device)

    def begin(self) -> None:
        """Start a round: forget what was added since the last commit."""
        self._server.discard()
        self._next = 0
        self._early.clear()

    def cut(self, cut: Cut) -> tuple[None, Stored]:
        return None, Stored(self._server.cut(cut))

    def accumulate(self, number: int, update: GroupUpdate) -> None:
        if number >= self._next:
            self._early[number] = update
        while self._next in self._early:
            self._server.accumulate(self._early.pop(self._next))
            self._next += 1

    def commit(self, round_number: int, updates: int) -> tuple[None, Stored]:
        """End a round of ``updates`` updates; what the server then holds is its state."""
        if self._next != updates:
            raise RuntimeError(f"{self._next} of {updates} updates came; the round is not whole")
        self._server.commit(round_number)
        return self.state()

    def load(self, *parts: Parameters) -> None:
        self._server.load(_joined(parts))

    def state(self) -> tuple[None, Stored]:
        return None, Stored(self._server.state)

    def see(self, *objects: Any) -> None:
        """Fails where one of the objects is lost."""

    def write(
        self,
        write: Callable[..., None],
        arguments: tuple[Any, ...],
        clients: Clients,
        *state: Parameters,
    ) -> None:
        write_parts(write, arguments, clients, *state)

    def pool(self, *parts: Moments) -> tuple[None, Stored]:
        return None, Stored(pooled(parts))


def write_parts(
    write: Callable[..., None],
    arguments: tuple[Any, ...],
    clients: Clients,
    *state: Parameters,
) -> None:
    """Call ``write`` with a state whose tensors lie on several servers.

    What clients keep comes as references: ``write`` gets those it needs.
    """
    register_tensors()
    write(_joined(state), *arguments, clients, ray.get)


def _joined(parts: tuple[Parameters, ...]) -> Parameters:
    return {name: tensor for part in parts for name, tensor in part.items()}
