"""The paper's rounds against the baseline: training alone, and with calibration and test.

Ours is a pool of 2 workers of one thread each, warm: what is compiled is compiled before. Settings
are the defaults, but for static batch norm's statistics: averages over batches of ten, as the
baseline's, so that both compute the same. The baseline is timed in parts
(`benchmarks.baseline.estimate`), turn and turn about with ours, for the same numbers of clients at
each level.
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.baseline.estimate import Seconds, estimate, some_steps
from benchmarks.data import provide
from benchmarks.jobs import JOBS, Job, baseline
from benchmarks.measure import Figure, seconds
from benchmarks.peak import Peak, matrix_products
from benchmarks.pool import pool
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.models.costs import model_costs
from heterofl_ray.simulation import RoundRecord, Simulation

NAME = "rounds"
ABOUT = "rounds of the paper's experiments against code as it is usually written"

WARM_UP = 2
"""Rounds; in one alone a level may not come up."""


@dataclass
class Timed:
    """The repeats of one job."""

    training: list[float] = field(default_factory=list)
    round: list[float] = field(default_factory=list)
    utilisation: list[float] = field(default_factory=list)


def measure(quick: bool) -> list[Figure]:
    figures: list[Figure] = []
    with matrix_products() as peak:
        for job in JOBS:
            with tempfile.TemporaryDirectory() as folder:
                source = provide(job.data, Path(folder), share=10 if quick else 1)
                print(f"  {job.name} on {source} data", file=sys.stderr, flush=True)
                timed = _measure(job, Path(folder), quick, peak)
            figures += _figures(job, timed, quick)
    return figures


def _measure(job: Job, root: Path, quick: bool, peak: Peak) -> Timed:
    timed = Timed()
    with pool(job.config(), root) as (simulation, _):
        theirs = baseline(simulation.bench)
        steps, share = some_steps(theirs), 2 if quick else 20
        for t in range(1, WARM_UP + (1 if quick else 5) + 1):
            ours, record = _round(simulation, t)
            if t <= WARM_UP:
                continue
            other = estimate(theirs, _clients(simulation, record), steps, share)
            timed.training.append(other.training / ours.training)
            timed.round.append(other.round / ours.round)
            done = useful_flops(simulation.bench, record)
            timed.utilisation.append(done / ours.training / peak())
            print(f"    {_said(ours)}; baseline: {_said(other)}", file=sys.stderr, flush=True)
    return timed


def _round(simulation: Simulation, t: int) -> tuple[Seconds, RoundRecord]:
    records: list[RoundRecord] = []
    training = seconds(lambda: records.append(simulation.train(t)))
    return Seconds(training, seconds(partial(simulation.test, t))), records[0]


def _clients(simulation: Simulation, record: RoundRecord) -> Mapping[float, int]:
    """How many clients there were of each rate."""
    counts = Counter(report.level for report in record.reports)
    levels = simulation.config.levels
    return {levels[name].rate: count for name, count in sorted(counts.items())}


def useful_flops(bench: Workbench, record: RoundRecord) -> float:
    """Of a round's training: forward and twice that backward, for what each client holds."""
    config, total = bench.config, 0.0
    for report in record.reports:
        spec = bench.spec
        if bench.sliced:
            spec = dataclasses.replace(spec, outputs=len(bench.data.labels(report.client)))
        forward = model_costs(spec, config.levels[report.level].rate).flops
        window = config.text.window if bench.data.task == "text" else 1
        total += 3 * forward * report.examples / window * config.local_epochs
    return total


def _figures(job: Job, timed: Timed, quick: bool) -> Iterator[Figure]:
    """Quick jobs are smaller than those the bounds are for."""
    yield Figure(
        name=f"round-{job.name}",
        about="seconds of the baseline's round / of ours, with calibration and test",
        values=tuple(timed.round),
        at_least=None if quick else job.round_bound,
    )
    yield Figure(
        name=f"training-{job.name}",
        about="seconds of the baseline's training in a round / of ours",
        values=tuple(timed.training),
        at_least=None if quick else job.train_bound,
    )
    yield Figure(
        name=f"utilisation-{job.name}",
        about="useful floating-point operations per second of our training / the peak of matrix "
        "products in 2 processes of one thread",
        values=tuple(timed.utilisation),
    )


def _said(taken: Seconds) -> str:
    return f"{taken.training:.1f} s training, {taken.testing:.1f} s calibration and test"
