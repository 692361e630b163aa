"""How the driver's machine is doing, sampled now and then by a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psutil

INTERVAL = 10.0
"""Seconds between samples, as MLflow's own monitor takes them."""


class Sampler:
    """Calls ``keep`` with a sample every few seconds, and when it is stopped."""

    def __init__(self, keep: Callable[[dict[str, float]], None]) -> None:
        self._keep = keep
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="system-samples", daemon=True)
        psutil.cpu_percent()  # the first call only starts the count

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL):
            self._keep(take_sample())
        self._keep(take_sample())


def take_sample() -> dict[str, float]:
    """CPU since the last sample, and memory, under MLflow's names for them."""
    memory = psutil.virtual_memory()
    return {
        "cpu_utilization_percentage": psutil.cpu_percent(),
        "system_memory_usage_megabytes": memory.used / 1e6,
        "system_memory_usage_percentage": memory.used / memory.total * 100,
        "driver_memory_usage_megabytes": psutil.Process().memory_info().rss / 1e6,
    }
