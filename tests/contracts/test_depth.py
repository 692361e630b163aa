"""InclusiveFL keeps the contracts: local = Ray, with faults = without, resumed = uninterrupted."""

from __future__ import annotations

from pathlib import Path

import pytest

from heterofl_ray import run
from heterofl_ray.runner import resume

from .conftest import killing_after, make_config

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("methods")]

DEPTHS = ("method=inclusivefl", "mix=a-b-c", "network.hidden=[8,8,8]", "inclusivefl.beta=0.5")


@pytest.mark.usefixtures("ray_cluster")
def test_ray_equals_local_though_servers_and_workers_are_killed() -> None:
    """One server holds all types, whatever server.shards says."""
    longer = (*DEPTHS, "rounds=10", "evaluate_every=1")
    local = run(make_config("conv", *longer))
    on_ray = make_config(
        "conv",
        *longer,
        *("execution.backend=ray", "execution.workers=2", "execution.tries=20", "server.shards=3"),
    )
    assert run(on_ray).summary["model_sha256"] == local.summary["model_sha256"]
    with killing_after("Server", 2, 6) as servers, killing_after("Worker", 4) as workers:
        result = run(on_ray)
    assert servers
    assert workers
    assert result.summary["model_sha256"] == local.summary["model_sha256"]
    assert result.summary["levels"] == local.summary["levels"]


def test_resumed_equals_uninterrupted() -> None:
    """Momenta and the optimiser's moments are in the checkpoint."""
    config = make_config("conv", *DEPTHS, "rounds=4", "checkpoint.keep=9")
    whole = run(config)
    folder = Path(whole.summary["run_dir"])
    for place in sorted((folder / "checkpoints").iterdir())[2:]:
        for file in place.iterdir():
            file.unlink()
        place.rmdir()
    (folder / "result.json").unlink()
    resumed = resume(folder)
    assert resumed.summary["model_sha256"] == whole.summary["model_sha256"]
    assert resumed.summary["levels"] == whole.summary["levels"]
