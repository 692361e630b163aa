"""A test beside the next round, whose sub-models are lost before it has ended."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
import ray

from heterofl_ray import run
from heterofl_ray.evaluation import Evaluation, evaluate_slices
from heterofl_ray.execution.backend import State
from heterofl_ray.execution.ray_backend import RayBackend
from heterofl_ray.mixes import Level
from heterofl_ray.simulation import Simulation

from .conftest import make_config
from .test_methods import lost_reference

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("ray"),
    pytest.mark.usefixtures("ray_cluster"),
]


@pytest.mark.parametrize(
    ("state_too", "rounds"), [(False, [1, 2, 3, 3, 4]), (True, [1, 2, 3, 2, 3, 4])]
)
def test_sub_models_that_are_lost_under_test_are_cut_anew(
    state_too: bool, rounds: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next round is done already: the run goes back to the one that is tested.

    Or further, to the last checkpoint, where that round's state went down with them.
    """
    longer = ("evaluate_every=1", "rounds=4", "evaluation.overlap=true")
    expected = run(make_config("conv", *longer))
    commit, evaluation = RayBackend.commit, Simulation.evaluation
    committed: list[int] = []
    gone: list[ray.ObjectRef] = []

    def losing_state(self: RayBackend, round_number: int) -> State:
        committed.append(round_number)
        self.state = commit(self, round_number)
        if committed == [1, 2]:
            gone.append(lost_reference())
            if state_too:
                self.state = State(gone, self.state.clients)
        return self.state

    def losing_slices(self: Simulation, levels: Sequence[Level]) -> Evaluation:
        if committed == [1, 2]:
            models = [(level, gone) for level in levels]
            return Evaluation(self.bench, self.backend, partial(evaluate_slices, models))
        return evaluation(self, levels)

    monkeypatch.setattr(RayBackend, "commit", losing_state)
    monkeypatch.setattr(Simulation, "evaluation", losing_slices)
    found = run(make_config("conv", *longer, "execution.backend=ray", "execution.workers=2"))
    assert committed == rounds
    for name in ("model_sha256", "global", "local", "levels"):
        assert found.summary[name] == expected.summary[name]
    for name in ("round", "global_accuracy", "local_accuracy"):
        assert found.history[name].to_pylist() == expected.history[name].to_pylist()
