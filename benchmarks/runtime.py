"""What the Ray runtime itself costs: a round on the pool, adding up updates, the driver's bytes."""

from __future__ import annotations

import pickle
import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import ray
import torch

from benchmarks.measure import Figure, seconds
from benchmarks.pool import pool
from heterofl_ray.clients.group_sum import GroupUpdate
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.execution.local import LocalBackend
from heterofl_ray.parameter_server import ParameterServer
from heterofl_ray.simulation import Simulation
from heterofl_ray.submodels.selectors import Cut

NAME = "runtime"
ABOUT = "the Ray pool against the same jobs in one process; adding up; bytes through the driver"

CPU = torch.device("cpu")
MEGABYTE = 1024**2


def measure(quick: bool) -> list[Figure]:
    repeats = 3 if quick else 7
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        return [
            _overhead(root, repeats),
            _accumulation(root, repeats),
            _driver_bytes(root, 2 if quick else 5),
        ]


def _config(**changes: Any) -> ExperimentConfig:
    """Rounds like the paper's on MNIST: 10 clients of level d, a job taking about a second."""
    values = {
        "data": "synthetic-images:20000",
        "model": "conv",
        "mix": "d",
        "clients": 50,
        "fraction": 0.2,
        "rounds": 1000,
        "local_epochs": 3,
        "execution": {"workers": 2, "address": "auto"},
    }
    return ExperimentConfig.from_dict({**values, **changes})


def _overhead(root: Path, repeats: int) -> Figure:
    """The same round on both, turn and turn about; the one process rests meanwhile."""
    config = _config()
    bench = Workbench(config, root, CPU)
    local = LocalBackend(bench)
    alone = Simulation(bench, local)
    ratios = []
    with pool(config, root) as (simulation, _):
        for t in range(1, repeats + 2):
            on_pool = seconds(partial(simulation.train, t))
            in_one = seconds(partial(alone.train, t))
            if t > 1:  # the first round warms both up
                ratios.append(on_pool / (in_one / 2))
    local.close()
    return Figure(
        name="runtime-overhead",
        about="a round on a pool of 2 workers / half of the same jobs back to back in one process",
        values=tuple(ratios),
        at_most=1.10,
    )


def _accumulation(root: Path, repeats: int) -> Figure:
    """Adding a level's slice into the sums and counts, against adding as many bytes flat."""
    config = _config(data="synthetic-images:1000", model="preresnet18", mix="a-b", clients=10)
    bench = Workbench(config, root, CPU)
    server = ParameterServer(bench)
    level = config.levels.levels[1]
    # several of each, in turns: what is added comes from afar, not from a cache
    updates = [GroupUpdate(Cut(level), server.cut(Cut(level)), 1.0, None, None) for _ in range(8)]
    elements = sum(tensor.numel() for tensor in updates[0].sums.values())
    flat, others = torch.zeros(elements), [torch.ones(elements) for _ in updates]
    ratios = []
    torch.set_num_threads(1)
    for _ in range(repeats):
        ours = statistics.median(seconds(partial(server.accumulate, u)) for u in updates * 3)
        plain = statistics.median(seconds(partial(flat.add_, other)) for other in others * 3)
        ratios.append(plain / ours)
    return Figure(
        name="accumulate-throughput",
        about="bytes per second added into the overlap sums and counts / torch.add_ on as many",
        values=tuple(ratios),
        at_least=0.5,
    )


def _driver_bytes(root: Path, rounds: int) -> Figure:
    """Everything the driver gets from or puts into the object store in a round with a test."""
    config = _config(
        data="synthetic-images:400",
        model="preresnet18",
        mix="a-e",
        clients=40,
        fraction=0.25,
        local_epochs=1,
    )
    moved = 0
    get, put = ray.get, ray.put

    def size(value: Any) -> int:
        return len(pickle.dumps(value, protocol=5))

    def counted_get(references: Any, **options: Any) -> Any:
        nonlocal moved
        value = get(references, **options)
        moved += size(value)
        return value

    def counted_put(value: Any, **options: Any) -> Any:
        nonlocal moved
        moved += size(value)
        return put(value, **options)

    megabytes = []
    with pool(config, root) as (simulation, _):
        simulation.train(1)
        ray.get, ray.put = counted_get, counted_put
        try:
            for t in range(2, rounds + 2):
                moved = 0
                simulation.train(t)
                simulation.test(t)
                megabytes.append(moved / MEGABYTE)
        finally:
            ray.get, ray.put = get, put
    return Figure(
        name="driver-megabytes",
        about="megabytes through the driver in a round of PreResNet18 with its test",
        values=tuple(megabytes),
        at_most=1,
    )
