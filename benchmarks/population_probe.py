"""One process of the population benchmark: deal the data, then visit cohorts of ten clients.

Called as ``python -m benchmarks.population_probe DATA_ROOT DATA CLIENTS``; prints JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

import torch

from benchmarks.measure import seconds
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.images import ImageClients
from heterofl_ray.data.store import open_dataset
from heterofl_ray.randomness import Streams
from heterofl_ray.submodels.levels import sample_cohort

COHORT = 10
ROUNDS = 400


def main(root: str, name: str, clients: int) -> None:
    torch.set_num_threads(1)
    config = ExperimentConfig(data=name, clients=clients, fraction=COHORT / clients)
    streams = Streams(0)
    data = ImageClients(open_dataset(Path(root), name), config, streams)
    device = torch.device("cpu")

    def visit(round_number: int) -> None:
        """Sample a cohort, open its clients and read one batch of each."""
        for client in sample_cohort(config, streams, round_number):
            random = streams.torch("batches", round_number, client)
            next(data.training_batches(client, config.batch_size, random, device))

    times = [seconds(lambda t=t: visit(t)) for t in range(ROUNDS)]  # type: ignore[misc]
    # What else the machine does can only add time, so the faster ones say more.
    quartile = statistics.quantiles(times)[0]
    print(json.dumps({"resident": _resident(), "seconds": quartile}))


def _resident() -> int:
    """Bytes of memory that the process holds now, mapped files' pages included."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    sizes = [line.split()[1] for line in lines if line.startswith("VmRSS:")]
    return int(sizes[0]) * 1024


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
