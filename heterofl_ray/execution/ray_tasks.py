"""What goes through the pool: jobs on their way, and the workers that they are at."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray

from heterofl_ray.execution.actors import Place


@dataclass(eq=False)
class Task:
    """A job on its way through the pool."""

    method: str
    job: Any
    inputs: tuple[Any, ...]
    returns: int = 1
    cost: float = 0.0
    level: str = ""
    tries: int = 0
    done: bool = False
    abandoned: bool = False
    error: Exception | None = None
    """Why it cannot be done; whoever asked for it decides what follows."""
    result: Any = None
    references: Sequence[ray.ObjectRef] = ()
    """What it returned besides its result; stays in the object store."""
    may_start: Callable[[], bool] = lambda: True

    @property
    def name(self) -> str:
        job = self.job
        what = {"train": "training", "calibrate": "calibration"}.get(self.method, "evaluation")
        clients = getattr(job, "clients", None)
        who = f" of clients {', '.join(map(str, clients))}" if clients else ""
        when = f" in round {job.round_number}" if hasattr(job, "round_number") else ""
        return f"{what}{who} at level {self.level}{when}"


@dataclass(eq=False)
class Started:
    """A task at a worker."""

    task: Task
    answer: ray.ObjectRef
    rest: Sequence[ray.ObjectRef]
    since: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.since

    @property
    def objects(self) -> tuple[Any, ...]:
        """What must be there for it to end."""
        return (*self.task.inputs, self.answer)


@dataclass(eq=False)
class Seat:
    """One worker: not yet ready, idle, or busy with a task and perhaps the next one at hand."""

    actor: Any
    arrival: ray.ObjectRef
    """Its place, once it is ready."""
    place: Place | None = None
    started: list[Started] = field(default_factory=list)

    @property
    def pending(self) -> ray.ObjectRef | None:
        """What is waited for from it next."""
        if self.place is None:
            return self.arrival
        return self.started[0].answer if self.started else None
