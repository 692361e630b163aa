"""This machine's float32 peak: matrix products in as many processes of one thread as we use."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import torch

PROCESSES = 2
SIDE = 1024


class Peak(Protocol):
    def __call__(self, seconds: float = 0.5) -> float:
        """Floating-point operations per second of all processes together."""


@contextmanager
def matrix_products() -> Iterator[Peak]:
    """Processes at hand that measure the peak whenever it is asked for."""
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as processes:

        def peak(seconds: float = 0.5) -> float:
            return sum(processes.map(_multiply, [seconds] * PROCESSES, chunksize=1))

        peak(0.1)
        yield peak


def _multiply(seconds: float) -> float:
    torch.set_num_threads(1)
    one, two = torch.rand(2, SIDE, SIDE)
    out = torch.empty(SIDE, SIDE)
    done, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        torch.mm(one, two, out=out)
        done += 1
    return done * 2 * SIDE**3 / (time.perf_counter() - started)
