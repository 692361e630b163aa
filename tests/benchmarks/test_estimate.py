"""A round of the baseline, estimated from a share of it: counts are scaled exactly."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from benchmarks.baseline import estimate as estimates
from benchmarks.baseline.estimate import estimate, some_steps, steps_of
from benchmarks.baseline.images import ImageJob, Pictures, changes
from benchmarks.baseline.text import TextJob


class Clock:
    """Time that passes only by the work that is done: what a step of each kind takes, by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("time.perf_counter", made.perf_counter)
    return made


def image_job(clock: Clock) -> ImageJob:
    def make(rate: float, scaler_rate: float, track: bool) -> nn.Module:
        return nn.Linear(1, 1)

    pictures = Pictures(torch.zeros(400, 1, 2, 2, dtype=torch.uint8), torch.zeros(400), lambda x: x)

    class Job(ImageJob):
        def client(self, client, rate, steps=None, orders=None):  # type: ignore[no-untyped-def]
            clock.now += 3 + rate * steps

        def combine(self, updates):  # type: ignore[no-untyped-def]
            clock.now += 10 * len(updates)

        def calibrated(self, batches=None, order=None):  # type: ignore[no-untyped-def]
            clock.now += batches
            return nn.Identity()

        def test_local(self, model, clients=None):  # type: ignore[no-untyped-def]
            clock.now += 7 * len(clients)
            return 0.0

        def test_global(self, model, batches=None):  # type: ignore[no-untyped-def]
            clock.now += 5 * batches
            return 0.0

    parts = [range(20)] * 20
    return Job(make, {}, 1.0, pictures, pictures, parts, parts, 5, 0.1)


def test_images_by_hand(clock: Clock) -> None:
    """20 images a client: 2 steps an epoch, 10 in all. 40 batches of ten, 8 of fifty."""
    job = image_job(clock)
    assert (steps_of(job, 0), some_steps(job)) == (10, 1)
    found = estimate(job, {0.5: 4, 0.25: 6}, steps=2, share=4)
    trained = 4 * (3 + 0.5 * 10) + 6 * (3 + 0.25 * 10)
    assert found.training == pytest.approx(trained + 10 * 10)
    assert found.testing == pytest.approx(40 + 7 * 20 + 5 * 8)
    assert found.round == found.training + found.testing


def test_text_by_hand(clock: Clock) -> None:
    class Job(TextJob):
        def client(self, client, rate, steps=None, draw=torch.rand, model=None):  # type: ignore[no-untyped-def]
            clock.now += 1 + steps

        def combine(self, updates):  # type: ignore[no-untyped-def]
            clock.now += 2

        def perplexity(self, batches=None, draw=torch.rand):  # type: ignore[no-untyped-def]
            clock.now += batches
            return 1.0

    rows: Tensor = torch.zeros(4, 200, dtype=torch.long)
    job = Job(9, {}, 1.0, rows, [[0], [1]], torch.zeros(6500, dtype=torch.long), 0.1)
    assert (steps_of(job, 0), some_steps(job), job.test_batches) == (4, 1, 11)
    found = estimate(job, {1.0: 3}, steps=2, share=5)
    assert found.training == pytest.approx(3 * (1 + 4) + 3 * 2)
    assert found.testing == pytest.approx(11)


def test_all_threads_only_for_the_baseline() -> None:
    before = torch.get_num_threads()
    with estimates.all_threads():
        assert torch.get_num_threads() >= before
    assert torch.get_num_threads() == before


def test_pictures_are_normalised_one_by_one() -> None:
    pixels = torch.tensor([[[[0, 255], [51, 102]]]], dtype=torch.uint8)
    picture, label = Pictures(pixels, torch.tensor([4]), changes((0.5,), (0.5,)))[0]
    torch.testing.assert_close(picture, torch.tensor([[[-1.0, 1.0], [-0.6, -0.2]]]))
    assert label == 4
