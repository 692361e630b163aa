"""One Ray for all contracts, configs of every model, and ways to break things."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import psutil
import pytest
import ray

from heterofl_ray import run
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.execution import own_ray
from heterofl_ray.execution.actors import Place
from heterofl_ray.execution.authentication import ensure_token
from heterofl_ray.execution.backend import State
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


@cache
def local_digest(model: str, *overrides: str) -> str:
    """Of the model that a run in one process ends with."""
    digest: str = run(make_config(model, *overrides)).summary["model_sha256"]
    return digest


@pytest.fixture(scope="package")
def ray_cluster() -> Iterator[None]:
    """A small Ray that the contracts of a process share; idle, it would slow whatever follows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv(own_ray.STEPS_BACK_TO, "")
        patch.delenv(own_ray.STEPS_BACK_TO)  # and so afterwards
        patch.setattr(own_ray, "OBJECT_STORE_BYTES", 300 * 1024**2)
        ensure_token()
        own_ray.start(4)
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


def kill_one(places: Sequence[Place], killed: list[int]) -> None:
    """One that was not killed before; not yet noticed, it still has its place."""
    for pid in [place.pid for place in places if place.pid not in killed][:1]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)


@contextmanager
def killing_after(kind: str, *rounds: int) -> Iterator[list[int]]:
    """Kill one of a run's own actors of a class after each of these rounds; the list tells whom.

    After the first of them at once, so that the list cannot stay empty however
    fast the run is; after the others in the midst of the next round.
    """
    killed: list[int] = []
    later: list[threading.Timer] = []
    waiting = list(rounds)
    commit = RayBackend.commit

    def commit_and_kill(self: RayBackend, round_number: int) -> State:
        state = commit(self, round_number)
        if round_number in waiting:
            waiting.remove(round_number)
            places = self.worker_places() if kind == "Worker" else self._servers.places
            if round_number == rounds[0]:
                kill_one(places, killed)
            else:
                later.append(threading.Timer(0.1, kill_one, (places, killed)))
                later[-1].start()
        return state

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RayBackend, "commit", commit_and_kill)
        yield killed
    for timer in later:
        timer.join()


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
            self.place = server.place
            self.accumulate = self

        def remote(self, number: int, part: ray.ObjectRef) -> ray.ObjectRef:
            note(ray.get(part))
            return self.server.accumulate.remote(number, part)

    def watched(self: RayBackend, *arguments: Any) -> None:
        actors = self._servers.actors
        self._servers.actors = [Watching(actor) for actor in actors]
        try:
            add_up(self, *arguments)
        finally:
            self._servers.actors = actors

    monkeypatch.setattr(RayBackend, "_add_up", watched)
