"""The same training rounds on one worker and on two, turn and turn about."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from benchmarks.data import provide
from benchmarks.jobs import FEW_ROUNDS, JOBS
from benchmarks.measure import Figure, seconds
from benchmarks.pool import pool

NAME = "scaling"
ABOUT = "training rounds of MNIST on one worker against two"


def measure(quick: bool) -> list[Figure]:
    job, repeats = JOBS[0], 1 if quick else 3
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        provide(job.data, root, share=10 if quick else 1)
        rounds = FEW_ROUNDS if quick else job.rounds
        one, two = (
            job.config(
                rounds=rounds, execution={"workers": workers, "backend": "ray", "address": "auto"}
            )
            for workers in (1, 2)
        )
        with pool(one, root) as (alone, _), pool(two, root) as (together, _):
            ratios = []
            for t in range(1, 2 + repeats):
                single, double = (seconds(partial(s.train, t)) for s in (alone, together))
                if t > 1:  # the first round warms both up
                    ratios.append(single / double)
    return [
        Figure(
            name="scaling-2-workers",
            about="seconds of a round on one worker / on two; 2 would be perfect",
            values=tuple(ratios),
        )
    ]
