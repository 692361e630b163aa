"""A run on a Ray cluster: a pool of workers, and the parameter server as an actor or several.

The driver moves references, never tensors. Reports and scores are small and come to it; slices and
sums go between the servers and the workers through the object store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError
from torch import Tensor

from heterofl_ray.aggregation.server_optimizers import BESIDE
from heterofl_ray.clients.jobs import CalibrateJob, ClientReport
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.data import shipping
from heterofl_ray.errors import RunFailed
from heterofl_ray.execution import cluster
from heterofl_ray.execution.actors import Place, Server, Setup, Worker
from heterofl_ray.execution.backend import Clients, Kept, State, TestWork, TrainWork
from heterofl_ray.execution.failures import Loss, ObjectsLost, ServerLost
from heterofl_ray.execution.ray_batch import RayBatch, raise_first
from heterofl_ray.execution.ray_pool import Pool
from heterofl_ray.execution.ray_servers import Parts, Servers
from heterofl_ray.execution.ray_tasks import Task
from heterofl_ray.execution.ray_waiting import LOOK_SECONDS, Every, fetch, is_gone
from heterofl_ray.execution.ray_writer import Writer
from heterofl_ray.execution.scheduling import CostEstimate, InOrder
from heterofl_ray.execution.transport import register_tensors
from heterofl_ray.models import registry
from heterofl_ray.parameter_server import ParameterServer, sizes, spread
from heterofl_ray.state import ClientState
from heterofl_ray.submodels.selectors import Cut

EARLY_MODELS = 4
"""For each worker: how many whole models' worth of updates may wait for their turn."""


@dataclass(frozen=True)
class Sent:
    """An update on its way to a server."""

    number: int
    shard: int
    part: ray.ObjectRef
    since: float = field(default_factory=time.monotonic)

    @property
    def is_late(self) -> bool:
        return time.monotonic() - self.since > LOOK_SECONDS


class RayBackend:
    def __init__(self, bench: Workbench, server: type[ParameterServer] = ParameterServer) -> None:
        self.committed = 0
        self.fallback: Callable[[], Kept | None] | None = None
        config = bench.config
        self._bench = bench
        self._started = cluster.connect(config)
        register_tensors()
        layout = bench.layout(config.levels.largest)
        shards = min(config.server.shards, len(layout)) if server.divisible else 1
        self._elements = sum(sizes(layout).values())
        self._setup = Setup(
            config,
            bench.data_root,
            bench.data_folders,
            dict(registry.MODELS),
            tuple(tuple(names) for names in spread(layout, shards)),
            server,
        )
        # Put once: each actor's start reads the same object.
        self._setup_reference = ray.put(self._setup)
        self._cost = CostEstimate()
        self.state = State([])
        self._new: dict[int, ray.ObjectRef] = {}
        """What clients keep from the round under way."""
        self._updates = 0
        self._shipment: list[ray.ObjectRef] = []
        self._tries, self._patience = config.execution.tries, config.execution.patience
        self._pool = Pool(self._hire, self._wanted, self._tries, self._patience)
        self._servers = Servers(self._start_servers, self._pool.turn, self._patience)
        self._writer = Writer(self._servers.wait_for)
        try:
            self._servers.replace()
            self._pool.fit()
            self._servers.keep_up(lambda: self._load(0, State([])), self._tries)
        except BaseException:
            self.close()
            raise

    # ---- workers and servers ----------------------------------------------------------------

    def _hire(self) -> Any:
        execution = self._bench.config.execution
        actor = ray.remote(
            num_cpus=execution.worker_cpus, num_gpus=cluster.worker_gpus(execution.worker_gpus)
        )(Worker)
        return actor.remote(self._setup_reference, self._shipped())

    def _wanted(self) -> int:
        execution = self._bench.config.execution
        if isinstance(execution.workers, int):
            return execution.workers
        gpus = cluster.worker_gpus(execution.worker_gpus)
        return cluster.capacity(execution.worker_cpus, gpus)

    def _start_servers(self) -> list[Any]:
        actor = ray.remote(num_cpus=0)(Server)
        return [
            actor.remote(self._setup_reference, shard, self._shipped())
            for shard in range(len(self._setup.shards))
        ]

    def _shipped(self) -> list[ray.ObjectRef]:
        """The data sets' files in the object store, put there once there is a second node."""
        if not self._shipment and sum(node["Alive"] for node in ray.nodes()) > 1:
            root, names = self._bench.data_root, self._setup.data_folders
            parcels = {name: dict(shipping.pack(root, name)) for name in names}
            self._shipment.append(ray.put(parcels))
        return self._shipment

    @property
    def workers(self) -> int:
        return len(self._pool.places())

    def worker_places(self) -> list[Place]:
        return self._pool.places()

    def server_places(self) -> list[Place]:
        self._servers.find()
        return self._servers.places

    # ---- a round ----------------------------------------------------------------------------

    def cut(self, cut: Cut) -> Parts:
        return self._servers.ask_for_parts(
            f"the sub-model of level {cut.level.name}",
            lambda server: server.cut.options(num_returns=2).remote(cut),
        )

    def train(
        self, work: Sequence[TrainWork], meanwhile: Callable[[], None] | None = None
    ) -> list[ClientReport]:
        self._pool.fit()
        for server in self._servers.actors:
            server.begin.remote()  # before any update: a server takes calls in order
        examples = self._bench.data.examples
        order = InOrder(EARLY_MODELS * self._pool.size * self._elements)
        tasks = [
            Task(
                "train",
                job,
                (*slices, *states),
                returns=1 + len(self._servers.actors) + job.keeps,
                cost=self._cost.of(job.level, sum(examples(client) for client in job.clients)),
                level=job.level.name,
                may_start=partial(order.may_start, number),
            )
            for number, (job, slices, *states) in enumerate(work)
        ]
        self._updates = len(tasks)
        self._pool.submit(tasks)
        try:
            self._add_up(tasks, order, meanwhile)
        except BaseException:
            self._pool.abandon(tasks)
            raise
        self._new = {
            report.client: kept
            for task in tasks
            for report, kept in zip(task.result, task.references, strict=False)
            if report.rejected is None
        }
        reports = [report for task in tasks for report in task.result]
        for report in reports:
            self._cost.learn(report)
        return reports

    def _add_up(
        self, tasks: Sequence[Task], order: InOrder, meanwhile: Callable[[], None] | None
    ) -> None:
        """Send each finished task's sum to the servers until all are counted.

        A sum may be lost with the node that held it before a server has read it; then its task is
        run again. The servers see to the order and that none counts twice.
        """
        sent: dict[ray.ObjectRef, Sent] = {}
        servers, look = self._servers.actors, Every(LOOK_SECONDS)
        shards = len(servers)
        missing = {(n, shard) for n in range(len(tasks)) for shard in range(shards)}
        under_way: set[int] = set()
        while missing:
            for number, task in enumerate(tasks):
                if task.done and number not in under_way:
                    under_way.add(number)
                    self._pool.learn_memory(task.result)
                    order.done(number, max(r.sent_back for r in task.result))
                    for shard, part in enumerate(task.references[:shards]):
                        if (number, shard) in missing:
                            answer = servers[shard].accumulate.remote(number, part)
                            sent[answer] = Sent(number, shard, part)
            self._servers.feel()
            if look.is_due() and is_gone(late.part for late in sent.values() if late.is_late):
                raise ObjectsLost("an update is on no living node")
            for answer in self._pool.turn(list(sent), "the server to add updates", urgent=False):
                update = sent.pop(answer)
                number, shard, task = update.number, update.shard, tasks[update.number]
                if self._was_counted(answer):
                    missing.discard((number, shard))
                    if not any((number, other) in missing for other in range(shards)):
                        # so that the object store can drop it; what clients keep is left
                        task.references = task.references[shards:]
                elif (number, shard) in missing and task.done:
                    under_way.discard(number)
                    order.lost(number)
                    self._pool.again(task, Loss.RESULT_LOST)
            raise_first(tasks)
            if meanwhile is not None:
                meanwhile()

    def _was_counted(self, answer: ray.ObjectRef) -> bool:
        """Whether a server added an update; False: it was lost on the way."""
        try:
            ray.get(answer)
        except RayActorError as error:
            raise ServerLost(str(error)) from None
        except RayTaskError as error:
            if not isinstance(error.cause, RayError):
                raise RunFailed(f"the server could not add an update: {error.cause}") from None
            return False
        except RayError:
            return False
        return True

    def commit(self, round_number: int) -> State:
        parts = self._servers.ask_for_parts(
            f"the server to commit round {round_number}",
            lambda server: server.commit.options(num_returns=2).remote(round_number, self._updates),
        )
        new = {client: ClientState(round_number, kept) for client, kept in self._new.items()}
        self.state = State(parts, {**self.state.clients, **new})
        self.committed = round_number
        return self.state

    # ---- tests ------------------------------------------------------------------------------

    def test(self, work: Sequence[TestWork]) -> RayBatch:
        tasks = []
        for job, slices, *given in work:
            level = job.level.name
            if isinstance(job, CalibrateJob):
                tasks.append(Task("calibrate", job, tuple(slices), returns=2, level=level))
            else:
                tasks.append(Task("evaluate", job, (*given, *slices), level=level))
        return RayBatch(self._pool, tasks)

    def pool(self, moments: Sequence[ray.ObjectRef]) -> ray.ObjectRef:
        answer, total = self._servers.actors[0].pool.options(num_returns=2).remote(*moments)
        self._servers.wait_for([answer], "statistics to be pooled", moments)
        if not self._was_counted(answer):
            raise ServerLost("statistics were lost on their way to the server")
        return total

    def fetch(self, handle: ray.ObjectRef) -> Any:
        return fetch(handle, self._patience)

    # ---- states -----------------------------------------------------------------------------

    def keep(self, state: State, write: Callable[..., None], *arguments: Any) -> None:
        """Write on the driver's machine; the driver does not wait for it."""
        here = ray.get_runtime_context().get_node_id()
        near = self._servers.actors[0] if self._servers.places[0].node == here else None
        self._writer.start(near, here, (write, arguments, state.clients, *state.server))

    def kept(self, wait: bool) -> str | None:
        return self._writer.outcome(wait)

    def restore(
        self, round_number: int, parameters: Mapping[str, Tensor], clients: Clients
    ) -> None:
        state = _put(parameters, clients)
        self._servers.keep_up(lambda: self._load(round_number, state), self._tries)

    def recover(self) -> None:
        """With new servers: the old ones are dead, or may wait for what is lost for long."""
        self._servers.replace()
        self._servers.keep_up(self._reload, self._tries)

    def _reload(self) -> None:
        """Give the servers the last state, or an older one if that is gone."""
        try:
            self._load(self.committed, self.state)
        except (RayError, ObjectsLost):
            # The state went down with its node. What is on disk is older, or there is nothing
            # yet and the new servers' initial model is it: rounds are done again from there.
            # New servers in any case: these may still be waiting for what is lost.
            self._servers.replace()
            self._servers.find()
            older = self.fallback() if self.fallback is not None else None
            number, state = (0, State([])) if older is None else (older[0], _put(*older[1:]))
            self._load(number, state)

    def _load(self, round_number: int, state: State) -> None:
        if state.server:
            held = [kept.tensors for kept in state.clients.values()]
            # first: all of it or nothing
            self._servers.ask("clients' states", lambda server: server.see.remote(*held), held)
            parts = state.server
            self._servers.ask("the state", lambda server: server.load.remote(*parts), parts)
        loaded = self._servers.ask_for_parts(
            "the server's state", lambda server: server.state.options(num_returns=2).remote()
        )
        self.committed, self.state = round_number, State(loaded, state.clients)

    def parameters(self) -> dict[str, Tensor]:
        parts = [self.fetch(part) for part in self.state.server]
        return {
            name: tensor.clone()
            for part in parts
            for name, tensor in part.items()
            if not name.startswith(BESIDE)
        }

    def clients(self) -> dict[int, Mapping[str, Tensor]]:
        return {client: self.fetch(kept.tensors) for client, kept in self.state.clients.items()}

    def close(self) -> None:
        self._pool.close()
        try:
            self._writer.outcome(wait=True)
        finally:
            self._servers.close()
            if self._started:
                ray.shutdown()


def _put(parameters: Mapping[str, Tensor], clients: Clients) -> State:
    """A state that was read from disk, in the object store."""
    kept = {
        client: ClientState(state.round_number, ray.put(dict(state.tensors)))
        for client, state in clients.items()
    }
    return State([ray.put(dict(parameters))], kept)
