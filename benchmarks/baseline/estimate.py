"""What a whole round of the baseline takes, from a fixed share of its work.

A round of the baseline takes a minute or more, so it is timed in parts and scaled by exact counts:

- training: one client of each level, without steps and with ``steps`` steps; the difference is
  the time of a step, the rest what a client costs anyhow (cutting, making model and optimiser).
  A round is its clients, each with all its steps. Adding up is timed for these clients and
  scaled by their number.
- calibration and tests: a share of the batches (and of the clients' loaders), times its inverse.

Nothing is timed that a round does not do, and nothing it does is left out.
``python -m benchmarks.baseline.check mnist-d-e`` checks an estimate against a whole round.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch

from benchmarks.baseline.images import BATCH, TEST_BATCH, ImageJob
from benchmarks.baseline.slicing import Update
from benchmarks.baseline.text import TextJob
from benchmarks.baseline.transformer import WINDOW
from benchmarks.measure import seconds


@dataclass(frozen=True)
class Seconds:
    """Of a whole round."""

    training: float
    testing: float
    """With calibration."""

    @property
    def round(self) -> float:
        return self.training + self.testing


@contextmanager
def all_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(os.cpu_count() or 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def estimate(
    job: ImageJob | TextJob, clients: Mapping[float, int], steps: int, share: int
) -> Seconds:
    """A round with ``clients`` clients of each rate; a ``share``-th of calibration and tests."""
    with all_threads():
        training = _training(job, clients, steps)
        testing = _images(job, share) if isinstance(job, ImageJob) else _text(job, share)
    return Seconds(training, testing)


def whole(job: ImageJob | TextJob, clients: Mapping[float, int]) -> Seconds:
    """A round, timed from its beginning to its end; to check the estimate against."""

    def train() -> None:
        rates = [rate for rate, count in clients.items() for _ in range(count)]
        job.combine([job.client(client, rate) for client, rate in enumerate(rates)])

    def test() -> None:
        if isinstance(job, TextJob):
            job.perplexity()
            return
        model = job.calibrated()
        job.test_local(model)
        job.test_global(model)

    with all_threads():
        return Seconds(seconds(train), seconds(test))


def _training(job: ImageJob | TextJob, clients: Mapping[float, int], steps: int) -> float:
    total, updates = 0.0, list[Update]()
    for client, (rate, count) in enumerate(clients.items()):
        anyhow = seconds(partial(job.client, client, rate, 0))
        started = time.perf_counter()
        updates.append(job.client(client, rate, steps))
        took = time.perf_counter() - started
        total += count * (anyhow + (took - anyhow) / steps * steps_of(job, client))
    return total + seconds(partial(job.combine, updates)) * sum(clients.values()) / len(updates)


def steps_of(job: ImageJob | TextJob, client: int) -> int:
    """A client's steps in a round."""
    if isinstance(job, TextJob):
        return -(-job.rows.shape[1] // WINDOW)
    return job.epochs * -(-len(job.parts[client]) // BATCH)


def some_steps(job: ImageJob | TextJob) -> int:
    """As many as are timed: half of one of the epochs of images, a quarter of the one of text."""
    return max(1, steps_of(job, 0) // (2 * job.epochs if isinstance(job, ImageJob) else 4))


def _images(job: ImageJob, share: int) -> float:
    batches = -(-len(job.train) // BATCH)
    some = max(1, batches // share)
    calibration = seconds(partial(job.calibrated, some)) * batches / some
    model = job.calibrated(1)
    few = range(max(1, len(job.test_parts) // share))
    own = seconds(partial(job.test_local, model, few)) * len(job.test_parts) / len(few)
    batches = -(-len(job.test) // TEST_BATCH)
    some = max(1, batches // share)
    return calibration + own + seconds(partial(job.test_global, model, some)) * batches / some


def _text(job: TextJob, share: int) -> float:
    some = max(1, job.test_batches // share)
    return seconds(partial(job.perplexity, some)) * job.test_batches / some
