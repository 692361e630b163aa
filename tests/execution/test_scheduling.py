from __future__ import annotations

import pytest

from heterofl_ray.clients.jobs import ClientReport
from heterofl_ray.execution.scheduling import (
    CostEstimate,
    InOrder,
    admits,
    group_clients,
    ranges,
)
from heterofl_ray.mixes import Level
from heterofl_ray.submodels.selectors import Cut

A, B = Level("a", 1.0), Level("b", 0.5)


def test_groups_are_of_one_level_largest_first_in_order_of_client() -> None:
    a, b = Cut(A), Cut(B)
    groups = group_clients([1, 4, 6, 7, 9], [b, a, b, b, a], size=2)
    assert groups == [(a, (4, 9)), (b, (1, 6)), (b, (7,))]


def test_clients_with_sub_models_of_their_own_are_groups_of_their_own() -> None:
    cuts = [Cut(A, "random", 3, client) for client in (1, 4)]
    assert group_clients([1, 4], cuts, size=2) == [(cuts[0], (1,)), (cuts[1], (4,))]


def test_ranges_cover_everything_once() -> None:
    assert ranges(7, 3) == [(0, 3), (3, 6), (6, 7)]
    assert ranges(0, 3) == []


def test_wider_counts_as_longer_until_measured() -> None:
    cost = CostEstimate()
    assert cost.of(A, 10) > cost.of(B, 10)
    for _ in range(30):
        cost.learn(ClientReport(0, "b", 0.0, examples=10, moved=0, seconds=50.0))
        cost.learn(ClientReport(0, "a", 0.0, examples=10, moved=0, seconds=1.0))
    assert cost.of(B, 10) == pytest.approx(50.0)
    assert cost.of(A, 20) == pytest.approx(2.0)


GIB = 1024**3
MEMORY = {"a": 5 * GIB, "e": 1 * GIB}


@pytest.mark.parametrize(
    ("level", "beside", "capacity", "fits"),
    [
        ("a", [], 1, True),  # alone it must be tried, whatever it takes
        ("a", ["a"], 16 * GIB, True),
        ("a", ["a"], 10 * GIB, False),
        ("e", ["a"], 10 * GIB, True),
        ("e", ["e"] * 8, 10 * GIB, True),
        ("e", ["e"] * 9, 10 * GIB, False),
        ("c", ["e"], 100 * GIB, False),  # never measured: alone first
        ("e", ["c"], 100 * GIB, False),
        ("c", ["a"] * 50, 0, True),  # a CPU
    ],
)
def test_how_many_jobs_share_a_gpu(
    level: str, beside: list[str], capacity: int, fits: bool
) -> None:
    assert admits(level, beside, MEMORY, capacity) is fits


def most_waiting(order: InOrder, sizes: list[int], seconds: list[int], workers: int) -> list[int]:
    """How much waited for its turn at each moment of a round with these jobs, longest first."""
    left = sorted(range(len(sizes)), key=lambda number: -seconds[number])
    running: dict[int, int] = {}
    done: set[int] = set()
    waited = []
    while len(done) < len(sizes):
        for number in [n for n in left if order.may_start(n)][: workers - len(running)]:
            left.remove(number)
            running[number] = seconds[number]
        assert running, "nothing runs and nothing may start"
        running = {number: rest - 1 for number, rest in running.items()}
        for number in [n for n, rest in running.items() if not rest]:
            del running[number]
            done.add(number)
            order.done(number, sizes[number])
        first = next((n for n in range(len(sizes)) if n not in done), len(sizes))
        waited.append(sum(sizes[n] for n in done if n > first))
    return waited


@pytest.mark.parametrize("slow", [0, 7, 39])
def test_updates_that_wait_for_a_slow_one_are_bounded(slow: int) -> None:
    sizes, seconds = [10] * 40, [2] * 40
    seconds[slow] = 30
    unbounded = most_waiting(InOrder(10**9), sizes, seconds, workers=2)
    bounded = most_waiting(InOrder(40), sizes, seconds, workers=2)
    assert max(bounded) <= 40 + 2 * 10  # and what was running when the bound was reached
    assert max(unbounded) > max(bounded) or slow == 39


def test_the_bound_is_of_bytes_so_that_small_updates_do_not_idle_workers() -> None:
    sizes, seconds = [1000] + [1] * 30, [30] + [1] * 30
    assert len(most_waiting(InOrder(4000), sizes, seconds, workers=2)) == 30


def test_whatever_order_costs_suggest_a_round_ends() -> None:
    """Also where the next update's job would be started last."""
    sizes, seconds = [10] * 30, list(range(1, 31))
    assert max(most_waiting(InOrder(20), sizes, seconds, workers=3)) <= 20 + 3 * 10


def test_an_update_that_is_lost_takes_its_turn_again() -> None:
    order = InOrder(25)
    for number in range(4):
        order.done(number, 10)
    assert order.may_start(9)
    order.lost(0)  # three wait for it now
    assert not order.may_start(9)
    assert order.may_start(0)
    order.done(0, 10)
    assert order.may_start(9)
    for number in (5, 6, 7):
        order.done(number, 10)
    assert not order.may_start(9)
    order.lost(6)
    assert order.may_start(9)
