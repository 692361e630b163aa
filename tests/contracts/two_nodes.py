"""Run by `test_nodes` in a process of its own: a Ray node leaves, or joins, in mid-run.

python -m tests.contracts.two_nodes CONFIG.yaml DATA_DIR remove|add
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

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.progress import Silent
from heterofl_ray.runner import run
from heterofl_ray.settings import load_yaml
from heterofl_ray.simulation import RoundRecord

from .conftest import actor_processes

SMALL = {"object_store_memory": 150 * 1024**2}


class Joining(Silent):
    """A second node joins after the third round; counts the workers there are."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.workers = 0

    def update(self, record: RoundRecord) -> None:
        if record.round_number == 3:
            self.cluster.add_node(num_cpus=1, **SMALL)
        self.workers = max(self.workers, len(actor_processes("Worker")))


def main(path: str, data_dir: str, what: str) -> None:
    cluster = Cluster()
    cluster.add_node(num_cpus=1, include_dashboard=False, **SMALL)
    config = ExperimentConfig.from_dict(load_yaml(Path(path)))
    told: dict[str, Any] = {}
    if what == "remove":
        second = cluster.add_node(num_cpus=1, **SMALL)
        cluster.connect(namespace="heterofl")

        def remove() -> None:
            while not list(Path(config.tracking.root).glob("*/checkpoints/round-*")):
                time.sleep(0.02)
            cluster.remove_node(second, allow_graceful=False)

        thread = threading.Thread(target=remove)
        thread.start()
        result = run(config, data_dir=data_dir)
        thread.join()
        told["nodes"] = sum(node["Alive"] for node in ray.nodes())
    else:
        cluster.connect(namespace="heterofl")
        joining = Joining(cluster)
        result = run(config, data_dir=data_dir, progress=joining)
        told["workers"] = joining.workers
    print(json.dumps({**result.summary, **told}))
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
