"""Servers that are played by the test: they answer late, never, or die."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from ray.exceptions import RayActorError

from heterofl_ray.errors import RunFailed
from heterofl_ray.execution import ray_servers
from heterofl_ray.execution.failures import ObjectsLost, ServerLost
from heterofl_ray.execution.ray_pool import Pool
from heterofl_ray.execution.ray_servers import Servers


class Clock:
    """Time that passes while something is waited for, and only then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("time.monotonic", lambda: self.now)


class Answer:
    """A reference to ``value``, there ``after`` so many seconds; an exception is raised."""

    def __init__(self, clock: Clock, value: Any, after: float) -> None:
        self.clock = clock
        self.value = value
        self.at = clock.now + after


class Question:
    def __init__(self, make: Callable[[], Answer]) -> None:
        self.make = make
        self.asked = 0

    def remote(self) -> Answer:
        self.asked += 1
        return self.make()


class Server:
    def __init__(self, clock: Clock, value: Any = "here", after: float = 0.5) -> None:
        self.place = Question(lambda: Answer(clock, value, after))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Ray as a clock: waiting for what is not there yet takes as long as one waits."""
    clock = Clock(monkeypatch)

    def wait(
        references: Sequence[Answer], num_returns: int, timeout: float, **_: Any
    ) -> tuple[list[Answer], list[Answer]]:
        if sum(one.at <= clock.now for one in references) < num_returns:
            clock.now += timeout
        return [one for one in references if one.at <= clock.now], []

    def get(references: Any) -> Any:
        if isinstance(references, list):
            return [get(one) for one in references]
        assert references.at <= clock.now, "this would have blocked"
        if isinstance(references.value, Exception):
            raise references.value
        return references.value

    monkeypatch.setattr(ray_servers.ray, "wait", wait)
    monkeypatch.setattr(ray_servers.ray, "get", get)
    monkeypatch.setattr(ray_servers.ray, "kill", lambda actor: None)
    return clock


def serving(*generations: list[Server], patience: float = 100) -> Servers:
    """One after another, as they are replaced; beside a pool that has nobody to wait for."""
    left = list(generations)
    pool = Pool(lambda: None, lambda: 0, tries=1, patience=patience)
    servers = Servers(lambda: list(left.pop(0)), pool.turn, patience)
    servers.replace()
    return servers


def feel(servers: Servers, clock: Clock, seconds: int) -> None:
    for _ in range(seconds):
        servers.feel()
        clock.now += 1


def test_answers_are_waited_for_aloud(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    servers = serving([Server(clock, "one", 45), Server(clock, "two", 65)])
    with caplog.at_level(logging.WARNING):
        answers = servers.ask("the models", lambda server: server.place.remote())
    assert answers == ["one", "two"]
    assert "nothing finished for 30 s; waiting for the models" in caplog.text


def test_a_server_that_never_answers_is_lost(clock: Clock) -> None:
    servers = serving([Server(clock), Server(clock, after=1e9)])
    with pytest.raises(ServerLost, match=r"for the model 100 s, which is execution\.patience"):
        servers.ask("the model", lambda server: server.place.remote())


def test_a_server_whose_inputs_are_gone_is_not_waited_for(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_servers, "is_gone", lambda needs: "gone" in needs)
    servers = serving([Server(clock, after=60)])
    assert servers.ask("x", lambda server: server.place.remote(), ["there"]) == ["here"]
    before = clock.now
    with pytest.raises(ObjectsLost, match="what the state needs is on no living node"):
        servers.ask("the state", lambda server: server.place.remote(), ["there", "gone"])
    assert clock.now - before < 15


def test_a_server_that_dies_while_nothing_is_asked_of_it_is_noticed(clock: Clock) -> None:
    server = Server(clock)
    servers = serving([server])
    feel(servers, clock, 20)
    assert 4 <= server.place.asked <= 7, "felt for all the time, or hardly ever"
    server.place.make = lambda: Answer(clock, RayActorError(), 0.5)
    with pytest.raises(ServerLost):
        feel(servers, clock, 10)


def test_a_server_that_hangs_while_nothing_is_asked_of_it_is_lost(clock: Clock) -> None:
    servers = serving([Server(clock), Server(clock, after=1e9)])
    with pytest.raises(ServerLost, match="does not answer in 100 s"):
        feel(servers, clock, 110)


def test_servers_are_replaced_until_they_live_but_not_for_ever(clock: Clock) -> None:
    dead = [Server(clock, RayActorError())]
    used = []
    servers = serving(dead, dead, [Server(clock, "place")])
    servers.keep_up(lambda: used.append(servers.places), tries=2)
    assert used == [["place"]]
    with pytest.raises(RunFailed, match="cannot be kept up"):
        serving(dead, dead, dead, dead).keep_up(lambda: None, tries=2)
