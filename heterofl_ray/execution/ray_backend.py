"""A run on a Ray cluster: a pool of workers, and the parameter server as an actor or several.

The driver moves references, never tensors. Reports and scores are small and come to it; slices and
sums go between the servers and the workers through the object store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from heterofl_ray.execution.failures import Loss, ServerLost
from heterofl_ray.execution.ray_batch import RayBatch, raise_first
from heterofl_ray.execution.ray_pool import Pool, Task
from heterofl_ray.execution.ray_writer import Writer
from heterofl_ray.execution.scheduling import CostEstimate
from heterofl_ray.execution.transport import register_tensors
from heterofl_ray.models import registry
from heterofl_ray.parameter_server import ParameterServer, spread
from heterofl_ray.state import ClientState
from heterofl_ray.submodels.selectors import Cut

Parts = list[ray.ObjectRef]
"""One reference for each server."""


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
        self._writer = Writer()
        self._places: list[Place] = []
        self._servers: list[Any] = []
        self._pool = Pool(
            self._hire, self._wanted, config.execution.tries, config.execution.patience
        )
        try:
            self._servers = self._start_servers()
            self._pool.fit()
            self._with_servers(lambda: self._load(0, State([])))
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

    def _with_servers(self, use: Callable[[], None]) -> None:
        """Have living servers and ``use`` them; they may die while they start, too."""
        for _ in range(1 + self._bench.config.execution.tries):
            try:
                self._places = self.server_places()
                use()
                return
            except ServerLost as error:
                reason = error
                self._replace_servers()
        raise RunFailed(f"the parameter server cannot be kept up: {reason}")

    def _replace_servers(self) -> None:
        for server in self._servers:
            ray.kill(server)
        self._servers = self._start_servers()

    @property
    def workers(self) -> int:
        return len(self._pool.places())

    def worker_places(self) -> list[Place]:
        return self._pool.places()

    def server_places(self) -> list[Place]:
        return self._ask(lambda server: server.place.remote())

    def _ask(self, call: Callable[[Any], ray.ObjectRef]) -> list[Any]:
        """Answers of all servers."""
        try:
            answers: list[Any] = ray.get([call(server) for server in self._servers])
            return answers
        except RayActorError as error:
            raise ServerLost(str(error)) from None

    def _ask_for_parts(self, call: Callable[[Any], Sequence[ray.ObjectRef]]) -> Parts:
        """References to what each server returns behind its small answer."""
        answers = [call(server) for server in self._servers]
        try:
            ray.get([answer for answer, _ in answers])
        except RayActorError as error:
            raise ServerLost(str(error)) from None
        return [part for _, part in answers]

    # ---- a round ----------------------------------------------------------------------------

    def cut(self, cut: Cut) -> Parts:
        return self._ask_for_parts(lambda server: server.cut.options(num_returns=2).remote(cut))

    def train(
        self, work: Sequence[TrainWork], meanwhile: Callable[[], None] | None = None
    ) -> list[ClientReport]:
        self._pool.fit()
        self._ask(lambda server: server.begin.remote())
        examples = self._bench.data.examples
        tasks = [
            Task(
                "train",
                job,
                (*slices, *states),
                returns=1 + len(self._servers) + job.keeps,
                cost=self._cost.of(job.level, sum(examples(client) for client in job.clients)),
                level=job.level.name,
            )
            for job, slices, *states in work
        ]
        self._updates = len(tasks)
        self._pool.submit(tasks)
        try:
            self._add_up(tasks, meanwhile)
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

    def _add_up(self, tasks: Sequence[Task], meanwhile: Callable[[], None] | None) -> None:
        """Send each finished task's sum to the servers until all are counted.

        A sum may be lost with the node that held it before a server has read it; then its task is
        run again. The servers see to the order and that none counts twice.
        """
        sent: dict[ray.ObjectRef, tuple[int, int]] = {}
        shards = len(self._servers)
        missing = {(n, shard) for n in range(len(tasks)) for shard in range(shards)}
        under_way: set[int] = set()
        while missing:
            for number, task in enumerate(tasks):
                if task.done and number not in under_way:
                    under_way.add(number)
                    self._pool.learn_memory(task.result)
                    for shard, part in enumerate(task.references[:shards]):
                        if (number, shard) in missing:
                            answer = self._servers[shard].accumulate.remote(number, part)
                            sent[answer] = (number, shard)
            for answer in self._pool.turn(list(sent)):
                number, shard = sent.pop(answer)
                task = tasks[number]
                if self._was_counted(answer):
                    missing.discard((number, shard))
                    if not any((number, other) in missing for other in range(shards)):
                        # so that the object store can drop it; what clients keep is left
                        task.references = task.references[shards:]
                elif (number, shard) in missing and task.done:
                    under_way.discard(number)
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
        parts = self._ask_for_parts(
            lambda server: server.commit.options(num_returns=2).remote(round_number, self._updates)
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
        answer, total = self._servers[0].pool.options(num_returns=2).remote(*moments)
        if not self._was_counted(answer):
            raise ServerLost("statistics were lost on their way to the server")
        return total

    def fetch(self, handle: ray.ObjectRef) -> Any:
        try:
            return ray.get(handle)
        except RayError as error:
            raise ServerLost(str(error)) from None

    # ---- states -----------------------------------------------------------------------------

    def keep(self, state: State, write: Callable[..., None], *arguments: Any) -> None:
        """Write on the driver's machine; the driver does not wait for it."""
        here = ray.get_runtime_context().get_node_id()
        near = self._servers[0] if self._places[0].node == here else None
        self._writer.start(near, here, (write, arguments, state.clients, *state.server))

    def kept(self, wait: bool) -> str | None:
        return self._writer.outcome(wait)

    def restore(
        self, round_number: int, parameters: Mapping[str, Tensor], clients: Clients
    ) -> None:
        state = _put(parameters, clients)
        self._with_servers(lambda: self._load(round_number, state))

    def recover(self) -> None:
        self._with_servers(self._reload)

    def _reload(self) -> None:
        """Give the servers the last state, or an older one if that is gone."""
        try:
            self._load(self.committed, self.state)
        except RayError:
            # The state went down with its node. What is on disk is older, or there is nothing
            # yet and the new servers' initial model is it: rounds are done again from there.
            older = self.fallback() if self.fallback is not None else None
            if older is None:
                self._replace_servers()
                self._load(0, State([]))
            else:
                self._load(older[0], _put(*older[1:]))

    def _load(self, round_number: int, state: State) -> None:
        if state.server:
            held = [kept.tensors for kept in state.clients.values()]
            self._ask(lambda server: server.see.remote(*held))  # first: all of it or nothing
            self._ask(lambda server: server.load.remote(*state.server))
        loaded = self._ask_for_parts(lambda server: server.state.options(num_returns=2).remote())
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
        try:
            self._writer.outcome(wait=True)
        finally:
            self._pool.close()
            for server in self._servers:
                ray.kill(server)
            if self._started:
                ray.shutdown()


def _put(parameters: Mapping[str, Tensor], clients: Clients) -> State:
    """A state that was read from disk, in the object store."""
    kept = {
        client: ClientState(state.round_number, ray.put(dict(state.tensors)))
        for client, state in clients.items()
    }
    return State([ray.put(dict(parameters))], kept)
