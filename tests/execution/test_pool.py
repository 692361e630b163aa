"""The pool's loop with workers that are played by the test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ray.exceptions import ObjectLostError, RayActorError, RayTaskError

from heterofl_ray.clients.jobs import TrainJob
from heterofl_ray.errors import GpuFull, RunFailed
from heterofl_ray.execution import ray_pool
from heterofl_ray.execution.actors import Place
from heterofl_ray.execution.failures import ObjectsLost
from heterofl_ray.execution.ray_pool import Pool
from heterofl_ray.execution.ray_tasks import Task
from heterofl_ray.execution.scheduling import admits
from heterofl_ray.mixes import Level
from heterofl_ray.submodels.selectors import Cut

NEVER = object()


class FakeRay:
    """Just enough of Ray: a reference is ready unless it is `NEVER`, and its own value or error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ray_pool.ray, "wait", self.wait)
        monkeypatch.setattr(ray_pool.ray, "get", self.get)
        monkeypatch.setattr(ray_pool.ray, "kill", lambda actor: self.killed.append(actor))
        self.hired = 0
        self.killed: list[Actor] = []
        self.waited_for: list[list[Reference]] = []

    def wait(self, references: Any, **_: Any) -> Any:
        self.waited_for.append(list(references))
        return [one for one in references if one.value is not NEVER], []

    def get(self, reference: Any) -> Any:
        if isinstance(reference.value, Exception):
            raise reference.value
        return reference.value


class Reference:
    def __init__(self, value: Any) -> None:
        self.value = value


class Method:
    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def options(self, **_: Any) -> Method:
        return self

    def remote(self, *_: Any) -> Reference:
        return Reference(self.values.pop(0))


class Actor:
    def __init__(self, arrival: Any, answers: list[Any]) -> None:
        self.place = Method([arrival])
        self.prepare = Method([None])
        self.work = Method(answers)


READY = Place(pid=1, node="n", gpus=(), gpu_bytes=0)


def make_pool(
    fake: FakeRay, actors: list[Actor], tries: int = 3, count: Callable[[], int] = lambda: 1
) -> Pool:
    def hire() -> Actor:
        fake.hired += 1
        return actors.pop(0)

    pool = Pool(hire, count, tries, patience=1)
    pool.fit()
    return pool


def died(init_failed: bool = False) -> RayActorError:
    return RayActorError(actor_init_failed=init_failed)


def test_workers_that_die_before_they_are_ready_are_not_hired_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = FakeRay(monkeypatch)
    pool = make_pool(fake, [Actor(died(), []) for _ in range(50)], tries=3)
    for _ in range(3):
        pool.turn()
    with pytest.raises(RunFailed, match="workers cannot start"):
        pool.turn()
    assert fake.hired == 4


def test_a_worker_whose_start_raises_ends_the_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRay(monkeypatch)
    pool = make_pool(fake, [Actor(died(init_failed=True), []), Actor(READY, [])])
    with pytest.raises(RunFailed, match="workers cannot start"):
        pool.turn()


def test_a_task_whose_input_is_lost_goes_back_to_its_owner_and_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = ObjectLostError("ab" * 14, None, "")
    fake = FakeRay(monkeypatch)
    pool = make_pool(fake, [Actor(READY, [lost, "fine"])])
    broken, other = (Task("work", job=None, inputs=(), level="a") for _ in range(2))
    pool.submit([broken, other])
    for _ in range(4):
        pool.turn()
    assert isinstance(broken.error, ObjectsLost)
    assert not broken.done
    assert (other.done, other.result, other.error) == (True, "fine", None)


def test_a_task_of_a_worker_that_died_is_done_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRay(monkeypatch)
    pool = make_pool(fake, [Actor(READY, [died()]), Actor(READY, ["fine"])])
    task = Task("work", job=None, inputs=(), level="a")
    pool.submit([task])
    for _ in range(5):
        pool.turn()
    assert (task.done, task.result, task.tries, fake.hired) == (True, "fine", 2, 2)


@pytest.mark.parametrize("urgent", [True, False])
def test_the_driver_sleeps_through_what_is_not_urgent_while_workers_are_busy(
    monkeypatch: pytest.MonkeyPatch, urgent: bool
) -> None:
    fake = FakeRay(monkeypatch)
    pool = make_pool(fake, [Actor(READY, [NEVER])])
    pool.turn()  # the worker arrives
    pool.submit([Task("work", job=None, inputs=(), level="a")])
    fake.waited_for.clear()
    answer = Reference("added")
    assert pool.turn([answer], "the server", urgent=urgent) == [answer]
    (woken_by, looked_at) = fake.waited_for
    assert (answer in woken_by, answer in looked_at) == (urgent, True)


def test_what_is_not_urgent_is_waited_for_where_no_worker_is_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = FakeRay(monkeypatch)
    pool = make_pool(fake, [Actor(READY, [])])
    pool.turn()
    fake.waited_for.clear()
    answer = Reference("added")
    assert pool.turn([answer], "the server", urgent=False) == [answer]
    assert answer in fake.waited_for[0]


def test_an_abandoned_task_is_not_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRay(monkeypatch)
    pool = make_pool(fake, [Actor(READY, [died()]), Actor(READY, [])])
    task = Task("work", job=None, inputs=(), level="a")
    pool.submit([task])
    pool.turn()  # the worker arrives
    pool._hand_out()
    pool.abandon([task])
    for _ in range(3):
        pool.turn()
    assert not task.done
    assert task.tries == 1


def full() -> RayTaskError:
    return RayTaskError("work", "trace", GpuFull("no memory"), pid=1, ip="here")


def test_a_task_that_found_a_full_gpu_is_done_again_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRay(monkeypatch)
    place = Place(pid=1, node="n", gpus=("0",), gpu_bytes=8000)
    pool = make_pool(fake, [Actor(place, [full(), "fine"])])
    pool.memory = {"a": 1000, "e": 100}
    task = Task("work", job=None, inputs=(), level="a")
    pool.submit([task])
    for _ in range(4):
        pool.turn()
    assert (task.done, task.result, task.tries, fake.hired) == (True, "fine", 2, 1)
    assert not admits("a", ["e"], pool.memory, 8000)
    assert admits("a", [], pool.memory, 8000)


def test_a_gpu_that_is_always_full_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRay(monkeypatch)
    pool = make_pool(fake, [Actor(READY, [full(), full()])], tries=2)
    pool.submit(
        [Task("work", job=TrainJob(3, Cut(Level("a", 1.0)), (7,), 0.1), inputs=(), level="a")]
    )
    pool.turn()  # the worker arrives
    pool.turn()  # the first try
    with pytest.raises(RunFailed, match=r"lost 2 times \(gpu_full\)"):
        pool.turn()


def test_a_worker_that_waits_for_what_is_gone_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it waits for goes back to its owner; what only waited behind it is done by the next."""
    fake = FakeRay(monkeypatch)
    monkeypatch.setattr(ray_pool, "LOOK_SECONDS", 0)
    monkeypatch.setattr(ray_pool, "is_gone", lambda things: "gone" in list(things))
    stuck, next_one = Actor(READY, [NEVER, NEVER]), Actor(READY, ["fine"] * 4)
    pool = make_pool(fake, [stuck, next_one])
    doomed = Task("work", job=None, inputs=("gone",), cost=9, level="a")
    others = [Task("work", job=None, inputs=("there",), level="a") for _ in range(4)]
    pool.submit([doomed, *others])
    for _ in range(8):
        pool.turn()
    assert isinstance(doomed.error, ObjectsLost)
    assert not doomed.done
    assert fake.killed == [stuck]
    assert [(task.result, task.tries) for task in others] == [("fine", 1)] * 4


def test_a_task_starts_when_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRay(monkeypatch)
    pool = make_pool(fake, [Actor(READY, ["first", "second"])])
    held = Task("work", job=None, inputs=(), cost=9, level="a", may_start=lambda: other.done)
    other = Task("work", job=None, inputs=(), cost=1, level="a")
    pool.submit([held, other])
    for _ in range(4):
        pool.turn()
    assert (other.result, held.result) == ("first", "second")


@pytest.mark.parametrize(("tasks", "held"), [(4, [1, 1]), (5, [1, 2]), (6, [2, 2]), (9, [2, 2])])
def test_tasks_are_handed_out_ahead_while_one_is_left_for_every_worker(
    tasks: int, held: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last ones are not, so that none has two of them while another idles."""
    fake = FakeRay(monkeypatch)
    actors = [Actor(READY, [NEVER] * tasks) for _ in range(2)]
    pool = make_pool(fake, actors, count=lambda: 2)
    pool.turn()
    pool.submit([Task("work", job=None, inputs=(), level="a") for _ in range(tasks)])
    pool.turn()
    assert sorted(len(seat.started) for seat in pool._seats) == held


def test_the_pool_shrinks_when_nodes_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has not come yet is not waited for, who is ready stays, who died is not replaced."""
    fake = FakeRay(monkeypatch)
    room = 4
    ready, dying = Actor(READY, ["fine"]), Actor(READY, [died()])
    coming = [Actor(NEVER, []), Actor(NEVER, [])]
    pool = make_pool(fake, [ready, dying, *coming], count=lambda: room)
    pool.turn()
    assert len(pool.places()) == 2
    room = 2
    pool.fit()
    assert fake.killed == coming
    room = 1
    tasks = [Task("work", job=None, inputs=(), level="a") for _ in range(2)]
    ready.work.values += ["fine"]
    pool.submit(tasks)
    for _ in range(4):
        pool.turn()
    assert [task.result for task in tasks] == ["fine", "fine"]
    assert len(pool.places()) == 1
    assert fake.hired == 4
    assert ready not in fake.killed
