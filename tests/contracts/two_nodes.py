"""Run by `test_nodes` in a process of its own: a Ray node leaves, or joins, in mid-run.

python -m tests.contracts.two_nodes CONFIG.yaml DATA_DIR remove|add
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster

from heterofl_ray.config import ExperimentConfig
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


def main(path: str, data_dir: str, what: str) -> None:
    cluster = Cluster()
    cluster.add_node(num_cpus=1, include_dashboard=False, **SMALL)
    second = cluster.add_node(num_cpus=1, **SMALL) if what == "remove" else None
    cluster.connect(namespace="heterofl")
    changing = Changing(cluster, second)
    config = ExperimentConfig.from_dict(load_yaml(Path(path)))
    result = run(config, data_dir=data_dir, progress=changing)
    told = {"changed_in": changing.changed_in, "workers": changing.workers}
    print(json.dumps({**result.summary, **told}), flush=True)
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
