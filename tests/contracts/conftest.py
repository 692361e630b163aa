"""One Ray for all contracts, configs of every model, and ways to break things."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest
import ray

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.execution.ray_backend import RayBackend

IMAGES = {
    "data": "digits",
    "clients": 20,
    "fraction": 0.3,
    "rounds": 3,
    "local_epochs": 1,
    "mix": "a-c",
    "partition": "classes:2",
    "evaluate_every": 0,
}
TEXT = {
    "data": "pydocs",
    "model": "transformer",
    "mix": "a-b",
    "fraction": 0.04,
    "rounds": 2,
    "local_epochs": 1,
    "evaluate_every": 0,
    "network": {"embedding": 16, "heads": 2, "feedforward": 16, "layers": 1},
}
CONFIGS = {
    "conv": {**IMAGES, "model": "conv", "network": {"hidden": [8, 8]}},
    "preresnet18": {
        **IMAGES,
        "model": "preresnet18",
        "rounds": 2,
        "network": {"hidden": [8, 8, 8, 8]},
    },
    "transformer": TEXT,
}


def make_config(model: str, *overrides: str) -> ExperimentConfig:
    return ExperimentConfig.from_dict(CONFIGS[model]).override(overrides)


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """A small Ray in this process that every contract shares."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(
        address="local",
        num_cpus=4,
        include_dashboard=False,
        object_store_memory=300 * 1024**2,
        log_to_driver=False,
        logging_level="ERROR",
    )
    yield
    ray.shutdown()


def actor_processes(kind: str) -> list[psutil.Process]:
    """Processes below this one that are actors of a class."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if process.cmdline()[:1] and process.cmdline()[0].startswith(f"ray::{kind}"):
                found.append(process)
        except psutil.Error:
            continue
    return found


@contextmanager
def killing(kind: str, every: float, most: int) -> Iterator[list[int]]:
    """Kill one actor of a class every few seconds; the list tells whom."""
    stop = threading.Event()
    killed: list[int] = []

    def kill() -> None:
        while not stop.wait(every) and len(killed) < most:
            for process in actor_processes(kind)[:1]:
                try:
                    process.send_signal(signal.SIGKILL)
                except psutil.Error:
                    continue
                killed.append(process.pid)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        stop.set()
        thread.join()


def wait_until(condition: object, seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.05)


def watch_servers(monkeypatch: pytest.MonkeyPatch, note: Callable[[Any], None]) -> None:
    """Have ``note`` called with all that parameter servers are sent."""
    add_up = RayBackend._add_up

    class Watching:
        """A server that tells what it is sent."""

        def __init__(self, server: Any) -> None:
            self.server = server
            self.accumulate = self

        def remote(self, number: int, part: ray.ObjectRef) -> ray.ObjectRef:
            note(ray.get(part))
            return self.server.accumulate.remote(number, part)

    def watched(self: RayBackend, *arguments: Any) -> None:
        servers = self._servers
        self._servers = [Watching(server) for server in servers]
        try:
            add_up(self, *arguments)
        finally:
            self._servers = servers

    monkeypatch.setattr(RayBackend, "_add_up", watched)
