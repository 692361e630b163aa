"""The same rounds in another process: how fast one core is while the other is busy as well.

Two cores seldom do twice the work of one. They share memory, caches and power, and a virtual
machine's two may be threads of one. What a pool of two workers can reach is thus twice one process
that has such a neighbour, not twice one that has the machine to itself.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

import torch

from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.execution.local import LocalBackend
from heterofl_ray.simulation import Simulation

PATIENCE = 120
"""Seconds for the other process to start, or to finish a round."""


class Neighbour:
    """Trains round after round while it is wanted."""

    def __init__(self, config: ExperimentConfig, root: Path) -> None:
        processes = multiprocessing.get_context("spawn")
        self._wanted, self._busy, self._idle = (processes.Event() for _ in range(3))
        events = (self._wanted, self._busy, self._idle)
        self._process = processes.Process(target=_rounds, args=(config, root, *events), daemon=True)
        self._process.start()
        self._await(self._idle)

    @contextmanager
    def busy(self) -> Iterator[None]:
        self._idle.clear()
        self._wanted.set()
        self._await(self._busy)
        yield
        self._wanted.clear()
        self._await(self._idle)

    def close(self) -> None:
        self._process.terminate()
        self._process.join()

    def _await(self, event: Event) -> None:
        if not event.wait(PATIENCE):
            raise RuntimeError(f"the neighbour was not ready within {PATIENCE} s")


def _rounds(config: ExperimentConfig, root: Path, wanted: Event, busy: Event, idle: Event) -> None:
    bench = Workbench(config, root, torch.device("cpu"))
    simulation = Simulation(bench, LocalBackend(bench))
    simulation.train(1)  # warms up
    t = 1
    while True:
        idle.set()
        wanted.wait()
        busy.set()
        while wanted.is_set():
            t += 1
            simulation.train(t)
        busy.clear()
