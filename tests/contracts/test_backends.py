"""The same bytes on any backend, with any number of workers and servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.driver_bytes import counting
from heterofl_ray import run
from heterofl_ray.execution.transport import INLINED_BYTES
from heterofl_ray.result import RunResult
from heterofl_ray.state import fingerprint, load

from .conftest import killing_after, local_digest, make_config

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("ray"),
    pytest.mark.usefixtures("ray_cluster"),
]


def ray_run(model: str, *overrides: str) -> RunResult:
    return run(make_config(model, "execution.backend=ray", *overrides))


@pytest.mark.parametrize(("assignment", "workers"), [("fix", 1), ("dynamic", 2), ("dynamic", 4)])
@pytest.mark.parametrize("model", ["conv", "preresnet18", "transformer"])
def test_ray_with_any_number_of_workers_equals_local(
    model: str, assignment: str, workers: int
) -> None:
    choice = f"assignment={assignment}"
    on_ray = ray_run(model, choice, f"execution.workers={workers}")
    assert on_ray.summary["model_sha256"] == local_digest(model, choice)
    file = Path(on_ray.summary["run_dir"]) / "model.safetensors"
    assert fingerprint(load(file)) == on_ray.summary["model_sha256"]


def test_compiled_steps_keep_the_contract_too() -> None:
    """One process compiled them; whoever loads them, alive to the end or not, computes the same."""
    compiled = ("execution.trainer=compiled", "network.norm=none", "mix=a", "rounds=4")
    expected = local_digest("conv", *compiled)
    assert expected != local_digest("conv", "execution.trainer=plain", *compiled[1:]), "not used"
    one = ray_run("conv", *compiled, "execution.workers=1")
    assert one.summary["model_sha256"] == expected
    with killing_after("Worker", 1, 2) as killed:
        two = ray_run("conv", *compiled, "execution.workers=2", "execution.tries=20")
    assert killed
    assert two.summary["model_sha256"] == expected


def test_the_number_of_servers_does_not_matter_and_the_model_stays_off_the_driver() -> None:
    """Small parts of a small model, which Ray would send through the driver again and again."""
    small = ("model=mlp", "network.hidden=[600]", "rounds=2")
    with counting() as counter:
        result = ray_run("conv", *small, "server.shards=3", "execution.workers=2")
        passed = counter.total()
    assert result.summary["model_sha256"] == local_digest("conv", *small)
    whole = sum(tensor.nbytes for tensor in result.parameters.values())
    saved = whole + 3 * INLINED_BYTES  # the result, with what each part is padded by
    assert saved < passed < saved + 100_000 < 2 * 6 * whole  # a round's six updates


def test_scores_and_history_are_the_same_too() -> None:
    overrides = ("evaluate_every=1", "evaluation.levels=always")
    local = run(make_config("conv", *overrides))
    on_ray = ray_run("conv", *overrides, "execution.workers=2")
    for name in ("global", "local", "levels", "megabytes_down", "megabytes_up"):
        assert on_ray.summary[name] == local.summary[name]
    timed = ("seconds", "worker_")
    columns = [name for name in local.history.column_names if not name.startswith(timed)]
    assert on_ray.history.select(columns).equals(local.history.select(columns))
    assert fingerprint(on_ray.statistics) == fingerprint(local.statistics)


def test_testing_beside_the_next_round_changes_nothing() -> None:
    overrides = ("evaluate_every=1", "rounds=4")
    apart = run(make_config("conv", *overrides))
    beside = ray_run("conv", *overrides, "evaluation.overlap=true", "execution.workers=2")
    assert beside.summary["model_sha256"] == apart.summary["model_sha256"]
    assert beside.summary["levels"] == apart.summary["levels"]
    for name in ("round", "global_accuracy", "local_accuracy"):
        assert beside.history[name].to_pylist() == apart.history[name].to_pylist()


def test_grouped_clients_are_the_same_on_both() -> None:
    """Groups are fixed by config and cohort, so their sums are too."""
    grouped = "execution.clients_per_job=3"
    on_ray = ray_run("conv", grouped, "execution.workers=2")
    assert on_ray.summary["model_sha256"] == local_digest("conv", grouped)
