"""Run by `test_nodes` in a process of its own: a Ray node leaves, or joins, in mid-run.

python -m tests.contracts.two_nodes CONFIG.yaml DATA_DIR remove|remove-server|add
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.execution import ray_backend
from heterofl_ray.execution.backend import State
from heterofl_ray.progress import Silent
from heterofl_ray.runner import run
from heterofl_ray.settings import load_yaml
from heterofl_ray.simulation import RoundRecord
from heterofl_ray.tracking.history import Row

from .conftest import actor_processes

SMALL = {"object_store_memory": 150 * 1024**2}


class Changing(Silent):
    """After the third round a node joins; or one leaves, a moment into the fourth."""

    def __init__(self, cluster: Cluster, second: Any) -> None:
        self.cluster = cluster
        self.second = second
        self.rounds = 0
        self.workers = 0
        self.changed_in = 0
        self.thread = threading.Timer(0.03, self._remove)

    def update(self, record: RoundRecord, row: Row) -> None:
        self.rounds = record.round_number
        if self.rounds == 3:
            if self.second is not None:
                self.thread.start()
            else:
                self.cluster.add_node(num_cpus=1, **SMALL)
                self.changed_in = self.rounds
        self.workers = max(self.workers, len(actor_processes("Worker")))

    def _remove(self) -> None:
        self.cluster.remove_node(self.second, allow_graceful=False)
        self.changed_in = self.rounds + 1


def first_server_off_the_driver() -> None:
    """On the other node; those that come after it are where Ray likes."""
    here = ray.get_runtime_context().get_node_id()
    (other,) = (node["NodeID"] for node in ray.nodes() if node["NodeID"] != here)
    places = [NodeAffinitySchedulingStrategy(other, soft=False)]
    remote, server = ray.remote, ray_backend.Server

    def placed(**options: Any) -> Any:
        def make(kind: type) -> Any:
            actor = remote(**options)(kind)
            first = kind is server and places
            return actor.options(scheduling_strategy=places.pop()) if first else actor

        return make

    ray.remote = placed  # type: ignore[assignment]


def noting_commits() -> list[int]:
    """Rounds as they are committed, some of them again."""
    commit = ray_backend.RayBackend.commit
    numbers: list[int] = []

    def noted(self: ray_backend.RayBackend, round_number: int) -> State:
        numbers.append(round_number)
        return commit(self, round_number)

    ray_backend.RayBackend.commit = noted  # type: ignore[method-assign]
    return numbers


def main(path: str, data_dir: str, what: str) -> None:
    cluster = Cluster()
    cluster.add_node(num_cpus=1, include_dashboard=False, **SMALL)
    cluster.connect(namespace="heterofl")  # while there is one node: not to the one that leaves
    second = cluster.add_node(num_cpus=1, **SMALL) if "remove" in what else None
    cluster.wait_for_nodes()
    if what == "remove-server":
        first_server_off_the_driver()
    done = noting_commits()
    changing = Changing(cluster, second)
    config = ExperimentConfig.from_dict(load_yaml(Path(path)))
    result = run(config, data_dir=data_dir, progress=changing)
    told = {"changed_in": changing.changed_in, "workers": changing.workers, "done": done}
    print(json.dumps({**result.summary, **told}), flush=True)
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
