"""A pool of worker actors: places jobs longest first, replaces workers that die.

One loop in the driver (`turn`) does all of it; what is waited for is always known. Which worker
runs a job, and when, changes nothing about the job's result.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import ray
from ray.exceptions import (
    ObjectLostError,
    OutOfMemoryError,
    RayActorError,
    RayError,
    RayTaskError,
    WorkerCrashedError,
)

from heterofl_ray.clients.jobs import ClientReport
from heterofl_ray.errors import ClientError, GpuFull, RunFailed
from heterofl_ray.execution.actors import Place
from heterofl_ray.execution.failures import Decision, Loss, ObjectsLost, decide
from heterofl_ray.execution.ray_tasks import Seat, Started, Task
from heterofl_ray.execution.ray_waiting import LOOK_SECONDS, SAY_SECONDS, Every, is_gone, ready
from heterofl_ray.execution.scheduling import admits

logger = logging.getLogger(__name__)

TURN_SECONDS = 1.0


class Pool:
    def __init__(
        self,
        hire: Callable[[], Any],
        count: Callable[[], int],
        tries: int,
        patience: float,
    ) -> None:
        self._hire = hire
        self._count = count
        self._tries = tries
        self._patience = patience
        self._seats: list[Seat] = []
        self._queue: list[Task] = []
        self._last_event = time.monotonic()
        self._say = Every(SAY_SECONDS)
        self._look = Every(LOOK_SECONDS)
        self._stillborn = 0
        """Workers that died before they were ready, since one last was."""
        self.memory: dict[str, int] = {}
        """Peak GPU bytes of a job of each level, as measured."""

    # ---- workers ----------------------------------------------------------------------------

    def fit(self) -> None:
        """Have as many workers as wanted: more when nodes joined, fewer when nodes left."""
        wanted = max(1, self._count())
        while len(self._seats) < wanted:
            actor = self._hire()
            self._seats.append(Seat(actor, actor.place.remote()))
            actor.prepare.remote(len(self._seats))  # before its first task; a fault shows there
        surplus = [seat for seat in self._seats if seat.place is None][: len(self._seats) - wanted]
        for seat in surplus:
            self._dismiss(seat)

    def learn_memory(self, reports: Sequence[ClientReport]) -> None:
        for report in reports:
            known = self.memory.get(report.level, 0)
            self.memory[report.level] = max(known, report.memory)

    @property
    def size(self) -> int:
        """Of workers, be they ready or on their way."""
        return len(self._seats)

    def places(self) -> list[Place]:
        """Of the workers that are ready."""
        return [seat.place for seat in self._seats if seat.place is not None]

    def close(self) -> None:
        for seat in list(self._seats):
            self._dismiss(seat)

    def _dismiss(self, seat: Seat) -> None:
        self._seats.remove(seat)
        ray.kill(seat.actor)

    # ---- tasks ------------------------------------------------------------------------------

    def submit(self, tasks: Sequence[Task]) -> None:
        self._queue += tasks
        self._queue.sort(key=lambda task: -task.cost)
        self._note_event()

    def abandon(self, tasks: Sequence[Task]) -> None:
        """Forget tasks; those that run already are let run, and their results dropped."""
        for task in tasks:
            task.abandoned = True
        self._queue = [task for task in self._queue if not task.abandoned]

    def again(self, task: Task, loss: Loss) -> None:
        """Run a task again whose result is gone, or give up."""
        task.done = False
        decision = decide(loss, task.tries, self._tries)
        if decision is Decision.GIVE_UP:
            raise RunFailed(
                f"{task.name} was lost {task.tries} times ({loss.name.lower()}); look at the "
                "workers' logs, or raise execution.tries"
            )
        self.submit([task])
        if decision is Decision.REPLACE:
            self.fit()

    def turn(
        self, others: Sequence[ray.ObjectRef] = (), what: str = "", urgent: bool = True
    ) -> list[ray.ObjectRef]:
        """Hand out what can be handed out, then wait for something to happen, not for long.

        Also waits for ``others``, which are ``what``; those that are there are returned. If they
        are not ``urgent``, workers come first: each time that the driver wakes it takes time from
        a worker on its machine.
        """
        self._hand_out()
        if self._look.is_due():
            self._give_back_what_waits_in_vain()
        waiting = {seat.pending: seat for seat in self._seats if seat.pending is not None}
        everything = [*waiting, *others]
        if not everything:
            return []
        ready(everything if urgent else list(waiting) or everything, 1, TURN_SECONDS)
        # one thing happened; take whatever else is there too
        arrived = ready(everything, len(everything), 0)
        if not arrived:
            self._say_what_is_waited_for(what if others else "")
            return []
        self._note_event()
        for reference in arrived:
            if reference in waiting:
                self._settle(waiting[reference])
        return [reference for reference in arrived if reference not in waiting]

    def _note_event(self) -> None:
        self._last_event = time.monotonic()
        self._say.again()

    def _hand_out(self) -> None:
        """Longest first to whoever is idle; while much is left, also one ahead to the busy.

        A worker with the next task at hand does not wait for the driver between two. The last
        tasks are not handed out ahead, so that no worker ends up with two while another idles.
        """
        for ahead in (0, 1):
            if not any(seat.place and len(seat.started) == ahead for seat in self._seats):
                continue
            for task in list(self._queue):
                if ahead and len(self._queue) <= len(self._seats):
                    return
                if not task.may_start():
                    continue
                seat = next((s for s in self._seats if self._can_take(s, task, ahead)), None)
                if seat is not None:
                    self._queue.remove(task)
                    self._start(seat, task)

    def _can_take(self, seat: Seat, task: Task, ahead: int) -> bool:
        if seat.place is None or len(seat.started) != ahead:
            return False
        beside = [
            entry.task.level
            for other in self._seats
            if other.place is not None and seat.place.shares(other.place)
            for entry in other.started[:1]
        ]
        return admits(task.level, beside, self.memory, seat.place.gpu_bytes)

    def _start(self, seat: Seat, task: Task) -> None:
        task.tries += 1
        method = getattr(seat.actor, task.method).options(num_returns=task.returns)
        references = method.remote(task.job, *task.inputs)
        answer, *rest = [references] if task.returns == 1 else references
        seat.started.append(Started(task, answer, rest))

    def _settle(self, seat: Seat) -> None:
        """Take what a worker has to say: that it is ready, a result, or that it is gone."""
        try:
            value = ray.get(seat.pending)
        except RayTaskError as error:
            self._failed(seat, error)
        except (RayActorError, WorkerCrashedError, OutOfMemoryError) as error:
            self._died(seat, error)
        except ObjectLostError as error:
            self._give_back(seat, ObjectsLost(str(error)))
        else:
            if seat.place is None:
                seat.place = value
                self._stillborn = 0
                return
            entry = seat.started.pop(0)
            entry.task.result, entry.task.references = value, entry.rest
            entry.task.done = True

    def _failed(self, seat: Seat, error: RayTaskError) -> None:
        """The job's own code raised an error, or its inputs could not be had."""
        cause = error.cause
        if not seat.started:
            raise RunFailed(f"a worker cannot start: {type(cause).__name__}: {cause}\n{error}")
        if isinstance(cause, (ObjectLostError, RayActorError)):
            self._give_back(seat, ObjectsLost(str(cause)))
        elif isinstance(cause, GpuFull) and seat.place is not None:
            task = seat.started.pop(0).task
            self.memory[task.level] = seat.place.gpu_bytes  # from now on alone
            self.again(task, Loss.GPU_FULL)
        elif isinstance(cause, ClientError):
            self._give_back(seat, ClientError(cause.message, cause.trace))
        else:
            what = seat.started[0].task.name
            reason = f"{what} failed: {type(cause).__name__}: {cause}\n{error}"
            self._give_back(seat, RunFailed(reason))

    def _give_back(self, seat: Seat, error: Exception) -> None:
        """A task that cannot be done goes back to whoever asked for it."""
        seat.started.pop(0).task.error = error

    def _died(self, seat: Seat, error: RayError) -> None:
        self._seats.remove(seat)
        if seat.place is None:
            self._stillborn += 1
            if getattr(error, "actor_init_failed", False) or self._stillborn > self._tries:
                raise RunFailed(f"workers cannot start: {error}")
        loss = Loss.OUT_OF_MEMORY if isinstance(error, OutOfMemoryError) else Loss.WORKER_DIED
        self._take_back(seat.started[1:])
        for entry in seat.started[:1]:
            if not entry.task.abandoned:
                self.again(entry.task, loss)
        self.fit()

    def _take_back(self, started: Sequence[Started]) -> None:
        """Queue tasks again that were only waiting at a worker."""
        for entry in started:
            entry.task.tries -= 1
        self.submit([entry.task for entry in started if not entry.task.abandoned])

    def _give_back_what_waits_in_vain(self) -> None:
        """A worker whose task's inputs are lost may wait for them for long; another takes over.

        The same where its answer is lost, which is then waited for here.
        """
        late = [
            seat for seat in self._seats if seat.started and seat.started[0].seconds > LOOK_SECONDS
        ]
        if not is_gone(thing for seat in late for thing in seat.started[0].objects):
            return
        for seat in late:
            if is_gone(seat.started[0].objects):
                self._give_back(seat, ObjectsLost("what a job needs is on no living node"))
                self._dismiss(seat)
                self._take_back(seat.started)
        self.fit()

    def _say_what_is_waited_for(self, other: str) -> None:
        silence = time.monotonic() - self._last_event
        if self._seats and not self.places() and silence > self._patience:
            raise RunFailed(
                f"no worker became ready in {self._patience:.0f} s: the cluster has "
                f"{_shown(ray.available_resources())} free of {_shown(ray.cluster_resources())}; "
                "see execution.worker_cpus and execution.worker_gpus"
            )
        if self._say.is_due():
            running = [entry for seat in self._seats for entry in seat.started[:1]]
            busy = [f"{entry.task.name} ({entry.seconds:.0f} s)" for entry in running]
            starting = sum(seat.place is None for seat in self._seats)
            logger.warning(
                "nothing finished for %.0f s; waiting for %s; %d more queued, %d workers starting",
                silence,
                ", ".join([other, *busy] if other else busy) or "a worker",
                len(self._queue),
                starting,
            )


def _shown(resources: dict[str, float]) -> str:
    return f"{resources.get('CPU', 0):g} CPUs and {resources.get('GPU', 0):g} GPUs"
