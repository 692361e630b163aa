"""Run by `test_nodes` in a process of its own: a Ray node leaves, or joins, in mid-run.

python -m tests.contracts.two_nodes CONFIG.yaml DATA_DIR remove|remove-server|add
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.execution import ray_backend
from heterofl_ray.execution.backend import State
from heterofl_ray.execution.own_ray import copying_workers, fewer_parts, patiently
from heterofl_ray.execution.ray_backend import RayBackend
from heterofl_ray.keeping import CHECKPOINTS
from heterofl_ray.progress import Silent
from heterofl_ray.runner import run
from heterofl_ray.settings import load_yaml
from heterofl_ray.simulation import RoundRecord
from heterofl_ray.tracking.history import Row

from .conftest import wait_until

SMALL = {"object_store_memory": 150 * 1024**2}


class Commits:
    """Rounds as they are committed, some of them again, and the most workers there were by then."""

    def __init__(self) -> None:
        self.rounds: list[int] = []
        self.workers = 0
        commit = RayBackend.commit

        def noted(backend: RayBackend, round_number: int) -> State:
            self.rounds.append(round_number)
            self.workers = max(self.workers, backend.workers)
            return commit(backend, round_number)

        RayBackend.commit = noted  # type: ignore[method-assign]


class Changing(Silent):
    """A node joins after the third round; or leaves, when its worker has come.

    One with a worker leaves in mid-round, one with the server between two rounds, when the last
    checkpoint is on disk: so it is known from where the run must go on.
    """

    def __init__(self, cluster: Cluster, second: Any, what: str, commits: Commits) -> None:
        self.cluster = cluster
        self.second = second
        self.what = what
        self.commits = commits
        self.changed_in = 0
        self.leaving = threading.Timer(0.03, self._remove)

    def start(self, config: ExperimentConfig, folder: Path, done: int, moved: float) -> None:
        self.every, self.folder = config.checkpoint.every, folder

    def update(self, record: RoundRecord, row: Row) -> None:
        if record.round_number < 3:
            return
        if not self.changed_in:
            self._change(record.round_number)
        elif record.round_number > self.changed_in and self.leaving.is_alive():
            self.leaving.join()
        if self.commits.workers < 2 and self.what != "remove-server":
            time.sleep(5)  # a worker is on its way

    def _change(self, round_number: int) -> None:
        if self.what == "add":
            self.cluster.add_node(num_cpus=1, **SMALL)
        elif self.what == "remove-server":
            self._wait_for_checkpoint(round_number)
            self._remove()
        elif self.commits.workers == 2:
            self.leaving.start()
        else:
            return
        self.changed_in = round_number + 1

    def _wait_for_checkpoint(self, round_number: int) -> None:
        if self.every:
            last = round_number - round_number % self.every
            place = self.folder / CHECKPOINTS / f"round-{last:06d}"
            wait_until(place.exists, 300, f"{place} is not written")

    def _remove(self) -> None:
        self.cluster.remove_node(self.second, allow_graceful=False)


def place_first_server(off_the_driver: bool) -> None:
    """Those that come after it are where Ray likes."""
    here = ray.get_runtime_context().get_node_id()
    nodes = [node["NodeID"] for node in ray.nodes()]
    (there,) = (node for node in nodes if (node != here) is off_the_driver)
    places = [NodeAffinitySchedulingStrategy(there, soft=False)]
    remote, server = ray.remote, ray_backend.Server

    def placed(**options: Any) -> Any:
        def make(kind: type) -> Any:
            actor = remote(**options)(kind)
            first = kind is server and places
            return actor.options(scheduling_strategy=places.pop()) if first else actor

        return make

    ray.remote = placed  # type: ignore[assignment]


def main(path: str, data_dir: str, what: str) -> None:
    cluster = Cluster()
    cluster.add_node(num_cpus=1, include_dashboard=False, **SMALL)
    cluster.connect(namespace="heterofl")  # while there is one node: not to the one that leaves
    second = cluster.add_node(num_cpus=1, **SMALL) if "remove" in what else None
    cluster.wait_for_nodes()
    place_first_server(off_the_driver=what == "remove-server")
    commits = Commits()
    changing = Changing(cluster, second, what, commits)
    config = ExperimentConfig.from_dict(load_yaml(Path(path)))
    result = run(config, data_dir=data_dir, progress=changing)
    told = {
        "changed_in": changing.changed_in,
        "workers": commits.workers,
        "done": commits.rounds,
    }
    print(json.dumps({**result.summary, **told}), flush=True)
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    with copying_workers(), patiently(), fewer_parts():
        main(*sys.argv[1:])
