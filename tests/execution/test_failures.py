"""The policies, without a cluster."""

from __future__ import annotations

import pytest

from heterofl_ray.execution.failures import Decision, Loss, decide


@pytest.mark.parametrize("loss", [Loss.WORKER_DIED, Loss.OUT_OF_MEMORY])
def test_a_lost_worker_is_replaced_until_the_tries_are_used_up(loss: Loss) -> None:
    decisions = [decide(loss, tries, most=3) for tries in (1, 2, 3)]
    assert decisions == [Decision.REPLACE, Decision.REPLACE, Decision.GIVE_UP]


@pytest.mark.parametrize("loss", [Loss.RESULT_LOST, Loss.GPU_FULL])
def test_where_the_worker_lives_no_new_one_is_needed(loss: Loss) -> None:
    assert decide(loss, 1, most=2) is Decision.RETRY
    assert decide(loss, 2, most=2) is Decision.GIVE_UP
