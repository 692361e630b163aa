"""The contracts for what HeteroFL itself has not: clients that keep layers, a server that keeps
moments, sub-models of each client's own, other channels in every round, steps of drawn widths."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import pytest
import ray

from heterofl_ray import run
from heterofl_ray.execution.backend import State
from heterofl_ray.execution.ray_backend import RayBackend
from heterofl_ray.result import RunResult
from heterofl_ray.runner import resume
from heterofl_ray.state import ClientState, fingerprint, flat

from .conftest import killing_after, make_config, wait_until, watch_servers
from .test_faults import start, wait_for_checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("methods")]

LONGER = ("rounds=8", "evaluate_every=4")
METHODS = {
    "lg-fedavg": ("method=lg-fedavg", "server.optimizer=adam", *LONGER),
    "random": ("method=random", *LONGER),
}
KEYED = {
    "rolling": ("method=fedrolex",),
    "drawn for levels": ("method=random", "selection.drawn_for=level"),
    "drawn widths": ("method=fjord", "fjord.distillation=0.5"),
}
"""What differs from HeteroFL by the round alone: no other state than the model's."""


@cache
def locally(method: str) -> RunResult:
    return run(make_config("conv", *METHODS[method]))


def on_ray(method: str, *overrides: str) -> RunResult:
    return run(make_config("conv", *METHODS[method], "execution.backend=ray", *overrides))


def assert_same(found: RunResult, method: str) -> None:
    expected = locally(method)
    assert found.summary["model_sha256"] == expected.summary["model_sha256"]
    assert fingerprint(flat(found.clients)) == fingerprint(flat(expected.clients))
    for name in ("global", "local", "levels", "megabytes_down", "megabytes_up"):
        assert found.summary[name] == expected.summary[name]
    assert bool(found.clients) == (method == "lg-fedavg")


@pytest.mark.usefixtures("ray_cluster")
def test_ray_with_one_worker_equals_local() -> None:
    assert_same(on_ray("random", "execution.workers=1"), "random")


@pytest.mark.usefixtures("ray_cluster")
def test_what_a_client_keeps_does_not_go_to_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asserted on all that the servers are sent; and the run equals the local one."""
    seen: list[set[str]] = []
    watch_servers(monkeypatch, lambda sent: seen.append(set(sent.sums)))
    assert_same(on_ray("lg-fedavg", "execution.workers=1"), "lg-fedavg")
    assert len(seen) == 8 * 6  # rounds of six clients
    assert all(names == {"classifier.weight", "classifier.bias"} for names in seen)


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("method", METHODS)
def test_two_workers_and_whoever_is_killed_change_nothing(method: str) -> None:
    where = ("execution.workers=2", "execution.tries=20", "server.shards=2")
    with killing_after("Worker", 1, 4) as workers, killing_after("Server", 2, 5) as servers:
        found = on_ray(method, *where, "evaluation.overlap=true")
    assert workers
    assert servers
    assert_same(found, method)


def lost_reference() -> ray.ObjectRef:
    """To an object that went down with the process that had made it."""

    class Owner:
        def put(self) -> list[ray.ObjectRef]:
            return [ray.put(bytes(10**6))]

    owner = ray.remote(num_cpus=0)(Owner).remote()
    (reference,) = ray.get(owner.put.remote())
    ray.kill(owner)
    wait_until(lambda: is_lost(reference), 30, "the object is still there")
    return reference


def is_lost(reference: ray.ObjectRef) -> bool:
    try:
        ray.get(reference)
    except ray.exceptions.ObjectLostError:
        return True
    return False


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("every", [0, 1])
def test_a_clients_state_that_is_lost_is_made_again(
    every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the last checkpoint, or without one from the beginning."""
    commit = RayBackend.commit
    rounds: list[int] = []

    def losing(self: RayBackend, round_number: int) -> State:
        rounds.append(round_number)
        state = commit(self, round_number)
        if round_number == 3 and rounds.count(3) == 1:
            self._writer.outcome(wait=True)  # the checkpoint of round 2 is on disk
            gone = lost_reference()
            lost = {c: ClientState(kept.round_number, gone) for c, kept in state.clients.items()}
            self.state = State(state.server, lost)
        return self.state

    small = ("method=lg-fedavg", "server.optimizer=adam", "rounds=4", f"checkpoint.every={every}")
    expected = run(make_config("conv", *small))
    monkeypatch.setattr(RayBackend, "commit", losing)
    found = run(make_config("conv", *small, "execution.backend=ray", "execution.workers=2"))
    assert rounds == ([1, 2, 3, 3, 4] if every else [1, 2, 3, 1, 2, 3, 4])
    assert found.summary["model_sha256"] == expected.summary["model_sha256"]


@pytest.mark.parametrize("method", METHODS)
def test_resumed_after_kill_9_equals_uninterrupted(method: str, tmp_path: Path) -> None:
    config = make_config("conv", *METHODS[method])
    (tmp_path / "config.yaml").write_text(config.to_yaml())
    process = start(["run", "config.yaml"], tmp_path)
    folder = wait_for_checkpoint(tmp_path, process)
    process.kill()
    process.communicate()
    assert_same(resume(folder), method)


def rewound(result: RunResult, rounds: int) -> Path:
    """The folder of a run as if it had been stopped after so many rounds."""
    folder = Path(result.summary["run_dir"])
    for place in sorted((folder / "checkpoints").iterdir())[rounds:]:
        shutil.rmtree(place)
    (folder / "result.json").unlink()
    return folder


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("kind", KEYED)
def test_what_is_keyed_by_the_round_is_the_same_anywhere(kind: str) -> None:
    """In one process, on two workers of which one is killed, and resumed."""
    config = make_config("conv", *KEYED[kind], "checkpoint.keep=9")
    whole = run(config)
    with killing_after("Worker", 1) as killed:
        spread = run(config.override(["execution.backend=ray", "execution.workers=2"]))
    assert killed
    resumed = resume(rewound(whole, 1))
    for name in ("model_sha256", "global", "local", "levels", "megabytes_down", "megabytes_up"):
        assert spread.summary[name] == resumed.summary[name] == whole.summary[name], name
