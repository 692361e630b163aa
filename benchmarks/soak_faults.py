"""Faults: which, when and for how long follows from a seed; each breaks something real."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from benchmarks.soak_parts import Disk, MlflowServer, Nodes

KINDS = {
    "worker": "workers killed",
    "server": "parameter servers killed",
    "node": "nodes killed, and another one started",
    "mlflow": "MLflow servers killed, and started again",
    "disk": "times that the run's disk was full",
    "store": "object stores stopped and overfilled, so that they spilled",
}
_PAUSE = (3.0, 9.0)
"""Seconds between faults."""
_LASTS = {"mlflow": (2.0, 15.0), "disk": (2.0, 8.0), "store": (1.0, 6.0)}


@dataclass
class Fault:
    kind: str
    pause: float
    """Seconds before it."""
    lasts: float
    choice: float
    """From 0 to 1: which one of several."""
    at: float = 0.0
    """When it was done, as `time.monotonic` tells it."""


class Run(Protocol):
    """The run that is hit."""

    rounds: int
    """Rounds done so far."""

    def since_first(self) -> float: ...


def schedule(seed: int, kinds: Sequence[str]) -> Iterator[Fault]:
    """Faults without end. Every kind comes before any comes again."""
    stream = random.Random(seed)
    while True:
        for kind in stream.sample(kinds, len(kinds)):
            lasts = stream.uniform(*_LASTS.get(kind, (0.0, 0.0)))
            yield Fault(kind, stream.uniform(*_PAUSE), lasts, stream.random())


class Injector:
    """Does what the schedule says until the time is over, while a run is under way."""

    def __init__(
        self,
        faults: Iterator[Fault],
        seconds: float,
        nodes: Nodes,
        disk: Disk,
        mlflow: MlflowServer | None,
        run: Run,
    ) -> None:
        self.done: list[Fault] = []
        self.error: Exception | None = None
        self._faults = faults
        self._seconds = seconds
        self._nodes = nodes
        self._disk = disk
        self._mlflow = mlflow
        self._run = run

    def run(self) -> None:
        try:
            for fault in self._faults:
                time.sleep(fault.pause)
                while not self._run.rounds and not self._over:
                    time.sleep(0.2)  # nothing to break yet
                if self._over:
                    return
                fault.at = time.monotonic()
                if self._break(fault):
                    self.done.append(fault)
        except Exception as error:  # noqa: BLE001 - raised by whoever waits for the thread
            self.error = error

    @property
    def _over(self) -> bool:
        return self._run.since_first() >= self._seconds

    def _break(self, fault: Fault) -> bool:
        """Break it, and mend it where it is ours to mend; whether there was anything to break."""
        match fault.kind:
            case "worker":
                return self._nodes.kill("Worker", fault.choice)
            case "server":
                return self._nodes.kill("Server", fault.choice)
            case "node":
                self._nodes.replace(fault.choice)
            case "store":
                self._nodes.slow(fault.choice, fault.lasts)
            case "disk":
                self._disk.fill(fault.lasts)
            case "mlflow" if self._mlflow is not None:
                self._mlflow.outage(fault.lasts)
        return True
