"""A thousand rounds of a tiny job on the pool: does anybody's memory grow?"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import psutil
import torch

from benchmarks.measure import Figure
from heterofl_ray import checkpoint
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.execution.ray_backend import RayBackend
from heterofl_ray.simulation import Simulation

NAME = "endurance"
ABOUT = "1,000 rounds of a tiny job: resident memory late in the run against early in it"


def measure(quick: bool) -> list[Figure]:
    rounds = 200 if quick else 1000
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    config = ExperimentConfig.from_dict(
        {
            "data": "digits",
            "model": "mlp",
            "mix": "a-b",
            "clients": 8,
            "fraction": 0.5,
            "rounds": rounds,
            "local_epochs": 1,
            "batch_size": 500,
            "evaluate_every": 10,
            "network": {"hidden": [8]},
            "execution": {"workers": 2, "address": "auto"},
        }
    )
    memory: dict[str, list[int]] = {"driver": [], "server": [], "worker": []}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        bench = Workbench(config, root, torch.device("cpu"))
        backend = RayBackend(bench)
        try:
            for record in Simulation(bench, backend).rounds():
                progress = checkpoint.Progress(record.round_number, "endurance", [])
                backend.keep(record.state, checkpoint.write, root / "kept", progress, 2, True)
                pids = {
                    "driver": [os.getpid()],
                    "server": [place.pid for place in backend.server_places()],
                    "worker": [place.pid for place in backend.worker_places()],
                }
                for who, some in pids.items():
                    memory[who].append(sum(psutil.Process(p).memory_info().rss for p in some))
        finally:
            backend.close()
    return [
        Figure(
            name=f"endurance-{who}",
            about=f"the {who}'s memory in the last tenth of {rounds} rounds / in the second tenth",
            values=(_growth(values),),
            at_most=1.05,
        )
        for who, values in memory.items()
    ]


def _growth(values: Sequence[int]) -> float:
    tenth = len(values) // 10
    late = statistics.median(values[-tenth:])
    return late / statistics.median(values[tenth : 2 * tenth])
