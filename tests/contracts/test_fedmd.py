"""FedMD keeps the contracts, and all that a server is sent are scores of public examples."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from heterofl_ray import run
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.execution.backend import State
from heterofl_ray.execution.ray_backend import RayBackend
from heterofl_ray.result import RunResult
from heterofl_ray.runner import resume
from heterofl_ray.state import ClientState

from .conftest import killing_after, watch_servers
from .test_faults import start, wait_for_checkpoint
from .test_methods import lost_reference

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("methods")]


def make_config(*overrides: str) -> ExperimentConfig:
    """Two thirds of three unlike participants, one of them with static batch norms."""
    small = [
        "method=fedmd", "rounds=6", "evaluate_every=3", "fedmd.public_size=200",
        "fedmd.participants=[party:4-8:.2, conv:4-4, mlp:16]", "fedmd.fraction=0.6",
        "fedmd.weights=[1, 2, 0.5]", "fedmd.pretrain_epochs=2", "fedmd.private_epochs=2",
        "fedmd.revisit_epochs=1", "fedmd.digest_batch=64",
    ]  # fmt: skip
    return ExperimentConfig().override([*small, *overrides])


def on_ray(*overrides: str) -> RunResult:
    return run(make_config("execution.backend=ray", "execution.tries=20", *overrides))


@cache
def locally() -> RunResult:
    return run(make_config())


def assert_same(found: RunResult) -> None:
    for name in ("model_sha256", "global", "local", "levels", "megabytes_down", "megabytes_up"):
        assert found.summary[name] == locally().summary[name], name
    assert sorted(found.clients) == [0, 1, 2]


@pytest.mark.usefixtures("ray_cluster")
def test_one_worker_equals_local_and_servers_are_sent_scores_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Asserted on all that the server is sent."""
    seen: list[dict[str, Any]] = []
    watch_servers(monkeypatch, lambda sent: seen.append(vars(sent)))
    assert_same(on_ray("execution.workers=1", "server.shards=3"))
    assert len(seen) == 3 + 6 * 2 * 2, "transfer learning of all, then two that score and digest"
    assert all(set(sent) == {"scores", "weight"} for sent in seen)
    shapes = [tuple(sent["scores"].shape) for sent in seen if sent["scores"] is not None]
    assert shapes == [(200, 10)] * 12


@pytest.mark.usefixtures("ray_cluster")
def test_two_workers_and_whoever_is_killed_change_nothing() -> None:
    with killing_after("Worker", 1, 3) as workers, killing_after("Server", 2, 4) as servers:
        found = on_ray("execution.workers=2", "execution.tries=20", "evaluation.overlap=true")
    assert workers
    assert servers
    assert_same(found)


@pytest.mark.usefixtures("ray_cluster")
def test_a_participants_state_that_is_lost_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a checkpoint from the beginning, transfer learning included."""
    commit = RayBackend.commit
    rounds: list[int] = []

    def losing(self: RayBackend, round_number: int) -> State:
        rounds.append(round_number)
        state = commit(self, round_number)
        if round_number == 2 and rounds.count(2) == 1:
            gone = lost_reference()
            lost = {c: ClientState(kept.round_number, gone) for c, kept in state.clients.items()}
            self.state = State(state.server, lost)
        return self.state

    monkeypatch.setattr(RayBackend, "commit", losing)
    assert_same(on_ray("execution.workers=2", "checkpoint.every=0"))
    assert rounds == [0, 1, 2, 0, 1, 2, 3, 4, 5, 6]


def test_resumed_after_kill_9_equals_uninterrupted(tmp_path: Path) -> None:
    """The baseline and the bound are in the checkpoint too."""
    (tmp_path / "config.yaml").write_text(make_config().to_yaml())
    process = start(["run", "config.yaml"], tmp_path)
    folder = wait_for_checkpoint(tmp_path, process)
    process.kill()
    process.communicate()
    assert_same(resume(folder))


@pytest.mark.usefixtures("ray_cluster")
def test_a_public_data_set_of_its_own_reaches_the_workers() -> None:
    small = (
        "data=synthetic-images:200", "fedmd.public=synthetic-images:300", "rounds=1",
        "fedmd.pretrain_epochs=1", "fedmd.participants=[party:4:.2, mlp:8]", "fedmd.weights=[]",
    )  # fmt: skip
    expected = run(make_config(*small))
    found = run(make_config(*small, "execution.backend=ray", "execution.workers=1"))
    assert found.summary["model_sha256"] == expected.summary["model_sha256"]
    assert found.summary["levels"] == expected.summary["levels"]
    assert found.parameters["consensus"].shape == (200, 20)
