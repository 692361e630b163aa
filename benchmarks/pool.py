"""The simulator as a user runs it, for timing: a Ray pool of workers of one thread each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import ray
import torch

from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.execution import own_ray
from heterofl_ray.execution.ray_backend import RayBackend
from heterofl_ray.simulation import Simulation

CPU = torch.device("cpu")
SEATS = 4
"""Actors that fit, more than there are cores: two pools can wait side by side for their turns."""


def ensure_ray(until: ExitStack) -> None:
    """One Ray for all benchmarks of a run; simulations use it and leave it running."""
    if ray.is_initialized():
        return
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    own_ray.start(SEATS)
    until.callback(ray.shutdown)


@contextmanager
def pool(config: ExperimentConfig, root: Path) -> Iterator[tuple[Simulation, RayBackend]]:
    """A simulation on a pool of its own."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    bench = Workbench(config, root, CPU)
    backend = RayBackend(bench)
    try:
        yield Simulation(bench, backend), backend
    finally:
        backend.close()
