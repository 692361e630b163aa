"""What the Ray runtime itself costs: a round on the pool, adding up updates, the driver's bytes."""

from __future__ import annotations

import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.driver_bytes import counting
from benchmarks.measure import Figure, seconds
from benchmarks.pool import pool
from heterofl_ray.aggregation.overlap import OverlapMean
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.execution.local import LocalBackend
from heterofl_ray.parameter_server import ParameterServer
from heterofl_ray.simulation import Simulation
from heterofl_ray.submodels.plan import SubmodelPlan
from heterofl_ray.submodels.selectors import Cut, select

NAME = "runtime"
ABOUT = "the Ray pool against the same jobs in one process; adding up; bytes through the driver"

CPU = torch.device("cpu")
JOBS = 10
"""Of a round: the paper's."""
MEGABYTE = 1024**2


def measure(quick: bool) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        return [
            _overhead(root, quick),
            _accumulation(root, 3 if quick else 5),
            *_driver_bytes(root, 1 if quick else 3),
        ]


def _config(**changes: Any) -> ExperimentConfig:
    """The paper's rounds on MNIST: clients of level d, 600 images each, five times over."""
    values = {
        "data": "synthetic-images:60000",
        "model": "conv",
        "mix": "d",
        "clients": 100,
        "fraction": JOBS / 100,
        "rounds": 1000,
        "local_epochs": 5,
        "execution": {"workers": 2, "address": "auto"},
    }
    return ExperimentConfig.from_dict({**values, **changes})


def config_of_overhead(quick: bool) -> ExperimentConfig:
    """A quick job has a fifth of the images, in so few rounds that it is not compiled for."""
    return _config(data="synthetic-images:12000", rounds=10) if quick else _config()


def _overhead(root: Path, quick: bool) -> Figure:
    """A round on the pool against the one in one process before it and the one after it.

    Cores that become faster or slower meanwhile do so for both.
    """
    repeats = 3 if quick else 5
    config = config_of_overhead(quick)
    bench = Workbench(config, root, CPU)
    local = LocalBackend(bench)
    alone = Simulation(bench, local)
    ratios = []
    with pool(config, root) as (simulation, _):
        simulation.train(1)  # warms all up
        alone.train(1)
        before = seconds(partial(alone.train, 2))
        for t in range(2, repeats + 2):
            on_pool = seconds(partial(simulation.train, t))
            after = seconds(partial(alone.train, t + 1))
            ratios.append(on_pool / ((before + after) / 4))
            before = after
    local.close()
    return Figure(
        name="runtime-overhead",
        about=f"a round of {JOBS} jobs on a pool of 2 workers / half of the same jobs back to back "
        "in one process",
        values=tuple(ratios),
        at_most=None if quick else 1.10,
        less_is_better=True,
    )


def _accumulation(root: Path, repeats: int) -> Figure:
    """A round's sums added and its counts written, against adding as many bytes flat."""
    config = _config(data="synthetic-images:1000", model="preresnet18", mix="a-b", clients=10)
    bench = Workbench(config, root, CPU)
    whole, level = config.levels.levels
    cut, server = Cut(level), ParameterServer(bench)
    outer, inner = bench.layout(whole), bench.layout(level)
    plan = SubmodelPlan.of(outer, select(cut, outer, inner, bench.streams))
    mean = OverlapMean(outer, server.parameters)
    # several of each, in turns: what is added comes from afar, not from a cache
    updates = [server.cut(cut) for _ in range(10)]
    elements = sum(tensor.numel() for tensor in updates[0].values())
    flat, others = torch.zeros(elements), [torch.ones(elements) for _ in updates]

    def our_round() -> None:
        for update in updates:
            mean.add(plan, update, 1.0)
        mean.count()

    def plain_round() -> None:
        for other in others:
            flat.add_(other)

    ratios = []
    torch.set_num_threads(1)
    for _ in range(repeats):
        ours = statistics.median(seconds(our_round) for _ in range(3))
        plain = statistics.median(seconds(plain_round) for _ in range(3))
        ratios.append(plain / ours)
    return Figure(
        name="accumulate-throughput",
        about="bytes per second of a round's updates added into the overlap sums, and its counts "
        "written / torch.add_ on as many",
        values=tuple(ratios),
        at_least=0.5,
    )


def _driver_bytes(root: Path, rounds: int) -> list[Figure]:
    """Of a model far too large for Ray's messages, and of one that just fits into them."""
    large = {"model": "preresnet18", "mix": "a-e", "about": "PreResNet18"}
    small = {"model": "mlp", "mix": "a", "network": {"hidden": [28]}, "about": "a model of 90 KB"}
    return [
        Figure(
            name=f"driver-megabytes{suffix}",
            about=f"megabytes through the driver in a round of {model.pop('about')} with its test",
            values=_megabytes(root, rounds, model),
            at_most=1,
        )
        for suffix, model in (("", large), ("-small", small))
    ]


def _megabytes(root: Path, rounds: int, model: dict[str, Any]) -> tuple[float, ...]:
    """Of each round, with 10 clients of a job each."""
    config = _config(
        data="synthetic-images:400", clients=40, fraction=0.25, local_epochs=1, **model
    )
    found = []
    with pool(config, root) as (simulation, _), counting() as counter:
        simulation.train(1)
        for t in range(2, rounds + 2):
            counter.start()
            simulation.train(t)
            simulation.test(t)
            found.append(counter.total() / MEGABYTE)
    return tuple(found)
