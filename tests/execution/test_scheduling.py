from __future__ import annotations

import pytest

from heterofl_ray.clients.jobs import ClientReport
from heterofl_ray.execution.scheduling import CostEstimate, admits, group_clients, ranges
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
