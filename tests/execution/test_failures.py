"""The policies, without a cluster."""

from __future__ import annotations

import pytest

from heterofl_ray.execution.failures import Decision, Loss, decide


@pytest.mark.parametrize("loss", [Loss.WORKER_DIED, Loss.OUT_OF_MEMORY])
def test_a_lost_worker_is_replaced_until_the_tries_are_used_up(loss: Loss) -> None:
    decisions = [decide(loss, tries, most=3) for tries in (1, 2, 3)]
    assert decisions == [Decision.REPLACE, Decision.REPLACE, Decision.GIVE_UP]


def test_a_lost_result_needs_no_new_worker() -> None:
    assert decide(Loss.RESULT_LOST, 1, most=2) is Decision.RETRY
    assert decide(Loss.RESULT_LOST, 2, most=2) is Decision.GIVE_UP


def test_a_clients_own_error_is_not_tried_again() -> None:
    assert decide(Loss.CLIENT_ERROR, 1, most=100) is Decision.GIVE_UP
