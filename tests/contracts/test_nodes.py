"""Two Ray nodes on one machine: one leaves, or joins, in mid-run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from heterofl_ray import run

from .conftest import make_config

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("what", ["remove", "add"])
def test_a_node_that_leaves_or_joins_does_not_change_the_model(
    what: str, tmp_path: Path, data_root: Path
) -> None:
    config = make_config("conv", "rounds=60", "evaluate_every=20", f"tracking.root={tmp_path}/runs")
    expected = run(config.override([f"tracking.root={tmp_path}/local"])).summary
    on_ray = config.override(["execution.backend=ray", "execution.tries=20"])
    (tmp_path / "config.yaml").write_text(on_ray.to_yaml())
    command = [sys.executable, "-m", "tests.contracts.two_nodes"]
    done = subprocess.run(
        [*command, str(tmp_path / "config.yaml"), str(data_root), what],
        cwd=ROOT,
        env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    # Ray may print lines of its own behind ours
    found = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    assert 3 <= found["changed_in"] < config.rounds, "the run was over before the change"
    assert found["workers"] == 2
    assert found["model_sha256"] == expected["model_sha256"]
    assert found["levels"] == expected["levels"]
