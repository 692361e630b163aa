"""The paper's rounds against the baseline: training alone, and with calibration and test.

Ours is a pool of 2 workers of one thread each, warm: what is compiled is compiled before. Settings
are the defaults, but for static batch norm's statistics: averages over batches of ten, as the
baseline's, so that both compute the same. The baseline is timed in parts
(`benchmarks.baseline.estimate`), turn and turn about with ours, for the same numbers of clients at
each level.

The published code calibrates and tests after every round; the presets do so after every tenth,
which is all that the paper's figures need. So there are two figures: of rounds as each side runs
them, which the bounds are for, and of rounds that are all tested on both sides. Beside the latter
stands what no float32 code could beat, and on text that is hardly a test: one takes products over
the whole vocabulary at every position, which are most of a baseline's test as well.
Tests, of which a tenth counts, are timed once, after the last repeat.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.baseline.estimate import Seconds, estimate, some_steps
from benchmarks.baseline.images import ImageJob
from benchmarks.data import provide
from benchmarks.jobs import FEW_ROUNDS, JOBS, Job, baseline
from benchmarks.measure import Figure, seconds
from benchmarks.operations import of_test, of_training
from benchmarks.peak import Peak, matrix_products
from benchmarks.pool import pool
from heterofl_ray.simulation import RoundRecord, Simulation

NAME = "rounds"
ABOUT = "rounds of the paper's experiments against code as it is usually written"

REPEATS = 5
TESTED_EVERY = 10
"""Rounds of the presets between tests."""


@dataclass
class Timed:
    """The repeats of one job."""

    ours: list[Seconds] = field(default_factory=list)
    theirs: list[Seconds] = field(default_factory=list)
    utilisation: list[float] = field(default_factory=list)
    at_peak: list[float] = field(default_factory=list)
    """Seconds of our rounds, test included, if products at this machine's peak were all of it."""

    def faster(self, tests: float) -> tuple[float, ...]:
        """How many times as fast ours is, when it tests in one of 1 / ``tests`` rounds."""
        pairs = zip(self.theirs, self.ours, strict=True)
        return tuple(
            (base.training + (base.testing if tests else 0))
            / (mine.training + tests * mine.testing)
            for base, mine in pairs
        )


def measure(quick: bool) -> list[Figure]:
    figures: list[Figure] = []
    # of the quick ones none is of the whole width, whose baseline alone would take half a minute
    jobs = [job for job in JOBS if not quick or job.mix == "d-e"]
    with matrix_products() as peak:
        for job in jobs:
            with tempfile.TemporaryDirectory() as folder:
                source = provide(job.data, Path(folder), share=10 if quick else 1)
                print(f"  {job.name} on {source} data", file=sys.stderr, flush=True)
                timed = _measure(job, Path(folder), quick, peak)
            figures += _figures(job, timed, quick)
    return figures


def _measure(job: Job, root: Path, quick: bool, peak: Peak) -> Timed:
    timed = Timed()
    last = 2 if quick else 1 + REPEATS
    config = job.config(rounds=FEW_ROUNDS) if quick else job.config()
    with pool(config, root) as (simulation, _):
        theirs = baseline(simulation.bench)
        steps, share = some_steps(theirs), 2 if quick else 20
        simulation.train(1)  # warms up
        if isinstance(theirs, ImageJob):  # text has nothing that is made once
            simulation.test(1)
        training = list[float]()
        for t in range(2, last + 1):
            records: list[RoundRecord] = []
            training.append(seconds(partial(_train, simulation, t, records)))
            clients = _clients(simulation, records[0])
            timed.theirs.append(estimate(theirs, clients, steps, share))
            trained, fastest = of_training(simulation.bench, records[0]), peak()
            timed.utilisation.append(trained / training[-1] / fastest)
            timed.at_peak.append((trained + of_test(simulation.bench)) / fastest)
            said = f"    {training[-1]:.1f} s training; baseline: {_said(timed.theirs[-1])}"
            print(said, file=sys.stderr, flush=True)
        testing = seconds(partial(simulation.test, last))
        print(f"    {testing:.1f} s calibration and test", file=sys.stderr, flush=True)
        timed.ours = [Seconds(taken, testing) for taken in training]
    return timed


def _train(simulation: Simulation, t: int, into: list[RoundRecord]) -> None:
    into.append(simulation.train(t))


def _clients(simulation: Simulation, record: RoundRecord) -> Mapping[float, int]:
    """How many clients there were of each rate."""
    counts = Counter(report.level for report in record.reports)
    levels = simulation.config.levels
    return {levels[name].rate: count for name, count in sorted(counts.items())}


def _figures(job: Job, timed: Timed, quick: bool) -> Iterator[Figure]:
    """Quick jobs are smaller than those the bounds are for."""
    yield Figure(
        name=f"round-as-run-{job.name}",
        about="seconds of the baseline's round, calibrated and tested as published / of ours with "
        f"its share of a test every {TESTED_EVERY} rounds, as the presets have it",
        values=timed.faster(tests=1 / TESTED_EVERY),
        at_least=None if quick else job.round_bound,
    )
    yield Figure(
        name=f"round-{job.name}",
        about="the same with ours calibrated and tested after every round, too",
        values=timed.faster(tests=1),
    )
    yield Figure(
        name=f"round-limit-{job.name}",
        about="seconds of the baseline's round / of one with calibration and test that does its "
        "useful floating-point operations, and nothing else, at the peak of matrix products in 2 "
        "processes",
        values=tuple(
            base.round / least for base, least in zip(timed.theirs, timed.at_peak, strict=True)
        ),
    )
    yield Figure(
        name=f"training-{job.name}",
        about="seconds of the baseline's training in a round / of ours",
        values=timed.faster(tests=0),
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
