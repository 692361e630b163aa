"""``python -m benchmarks.baseline.check JOB``: a whole round of the baseline and its estimate."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.baseline.estimate import Seconds, estimate, some_steps, whole
from benchmarks.data import provide
from benchmarks.jobs import CPU, JOBS, baseline
from heterofl_ray.clients.workbench import Workbench


def check(name: str) -> None:
    """They should agree within a tenth on a quiet machine."""
    chosen = next(job for job in JOBS if job.name == name)
    with TemporaryDirectory() as folder:
        provide(chosen.data, Path(folder))
        config = chosen.config()
        job = baseline(Workbench(config, Path(folder), CPU))
        clients = {level.rate: 5 for level in config.levels.levels}

        def estimated() -> Seconds:
            return estimate(job, clients, some_steps(job), 20)

        estimated()  # warms up
        for what, taken in (
            ("estimated", estimated()),
            ("whole", whole(job, clients)),
            ("estimated", estimated()),
        ):
            print(f"{name} {what}: {taken.training:.1f} s training, {taken.testing:.1f} s testing")


if __name__ == "__main__":
    check(sys.argv[1])
