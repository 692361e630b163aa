"""Waiting for Ray ends: with what was waited for, with a stop, or with a loss."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import ray
from ray.exceptions import GetTimeoutError, OwnerDiedError

from heterofl_ray.errors import Interrupted
from heterofl_ray.execution import ray_waiting
from heterofl_ray.execution.failures import ObjectsLost
from heterofl_ray.execution.ray_waiting import fetch, is_gone, ready

HERE, THERE = "a" * 56, "b" * 56


def test_a_stop_inside_rays_own_code_comes_out_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(*_: Any, **__: Any) -> Any:
        raise SystemError("returned a result with an exception set") from Interrupted(143)

    monkeypatch.setattr(ray, "wait", wait)
    with pytest.raises(Interrupted) as stop:
        ready([], 1, 0.0)
    assert stop.value.code == 143


def test_other_errors_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(*_: Any, **__: Any) -> Any:
        raise SystemError("something else")

    monkeypatch.setattr(ray, "wait", wait)
    with pytest.raises(SystemError, match="something else"):
        ready([], 1, 0.0)


@pytest.mark.parametrize(
    ("size", "nodes", "spilled", "gone"),
    [
        (10**6, [HERE], False, False),
        (10**6, [THERE, HERE], False, False),
        (10**6, [THERE], False, True),
        (10**6, [], False, True),
        (10**6, [], True, False),
        (1000, [], False, False),  # so small that Ray keeps it with its owner
        (None, [], False, False),  # not made yet
    ],
)
def test_an_object_is_gone_when_no_living_node_has_it(
    size: int | None, nodes: list[str], spilled: bool, gone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = [{"NodeID": HERE, "Alive": True}, {"NodeID": THERE, "Alive": False}]
    place = {"object_size": size, "node_ids": nodes, "did_spill": spilled}
    monkeypatch.setattr(ray, "nodes", lambda: known)
    monkeypatch.setattr(
        ray_waiting, "get_object_locations", lambda objects, _: dict.fromkeys(objects, place)
    )
    assert is_gone([None, ray.ObjectRef.from_random()]) is gone
    assert not is_gone([None, "a handle of no object"])


class Store:
    """Of one object, which is there after so many seconds; how long each question waited."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: float, gone: bool = False) -> None:
        self.asked: list[float] = []
        self.after = after
        monkeypatch.setattr(ray, "get", self.get)
        monkeypatch.setattr(ray_waiting, "is_gone", lambda _: gone)

    def get(self, handle: Any, timeout: float) -> str:
        self.asked.append(timeout)
        if sum(self.asked) < self.after:
            raise GetTimeoutError("not yet")
        return "value"


def test_what_comes_late_is_asked_for_again_and_waited_for_aloud(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(monkeypatch, after=60)
    with caplog.at_level(logging.WARNING):
        assert fetch(ray.ObjectRef.from_random(), patience=300) == "value"
    assert store.asked == [10, 10, 20, 40]
    assert "waiting for an object of the store for 40 s" in caplog.text


def test_what_never_comes_is_lost_when_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(monkeypatch, after=1e9)
    with pytest.raises(ObjectsLost, match="could not be had in 50 s"):
        fetch(ray.ObjectRef.from_random(), patience=50)
    assert sum(store.asked) == 50


def test_what_is_gone_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(monkeypatch, after=1e9, gone=True)
    with pytest.raises(ObjectsLost):
        fetch(ray.ObjectRef.from_random(), patience=300)
    assert store.asked == [10]


def test_rays_own_word_of_a_loss_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def get(*_: Any, **__: Any) -> Any:
        raise OwnerDiedError("ab" * 14, None, "")

    monkeypatch.setattr(ray, "get", get)
    with pytest.raises(ObjectsLost):
        fetch(ray.ObjectRef.from_random(), patience=300)
