"""``python -m benchmarks.fedavg.ours DATA_ROOT ROUNDS OF``: the job on a Ray pool; prints JSON.

The first ROUNDS of a run of OF rounds, on which it depends whether steps are compiled.
Starts as ``heterofl-ray run`` does: Ray first, with torch imported beside it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.fedavg.job import settings
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.execution.cluster import connect_early


def main(root: Path, rounds: int, of: int) -> None:
    config = ExperimentConfig.from_dict(settings(of))
    connect_early(config)

    from heterofl_ray.execution import ray_pool
    from heterofl_ray.runner import make_backend, make_bench
    from heterofl_ray.simulation import Simulation

    handed_out: list[float] = []
    start = ray_pool.Pool._start

    def noted(self: Any, seat: Any, task: Any) -> None:
        handed_out.append(time.time())  # to a worker that is ready and idle
        start(self, seat, task)

    ray_pool.Pool._start = noted  # type: ignore[method-assign]
    bench = make_bench(config, root)
    backend = make_backend(bench)
    simulation = Simulation(bench, backend)
    taken = []
    for t in range(1, rounds + 1):
        started = time.perf_counter()
        simulation.train(t)
        simulation.test(t)
        taken.append(time.perf_counter() - started)
    backend.close()
    print(json.dumps({"first_client": handed_out[0], "rounds": taken}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
