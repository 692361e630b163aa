"""Two Ray nodes on one machine: one leaves, or joins, in mid-run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from heterofl_ray import run

from .conftest import make_config

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("nodes")]
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("what", ["remove", "add"])
def test_a_node_that_leaves_or_joins_does_not_change_the_model(
    what: str, tmp_path: Path, data_root: Path
) -> None:
    found = compare_with_local(what, tmp_path, data_root, "rounds=24", "evaluate_every=8")
    assert found["workers"] == 2
    assert found["done"] == list(range(1, 25))


@pytest.mark.parametrize(("every", "again"), [(2, {3}), (0, {1, 2, 3})])
def test_a_state_that_goes_down_with_its_node_is_made_again(
    every: int, again: set[int], tmp_path: Path, data_root: Path
) -> None:
    """The server's node, and a model too large to travel inside of Ray's messages.

    Rounds are done again from the last checkpoint, or without one from the beginning.
    """
    larger = ("network.hidden=[64,128]", "rounds=8", f"checkpoint.every={every}")
    found = compare_with_local("remove-server", tmp_path, data_root, *larger)
    counts = Counter(found["done"])
    assert {number for number, times in counts.items() if times > 1} == again
    assert sorted(counts) == list(range(1, 9))


@cache
def locally(*overrides: str) -> Any:
    """What a run in one process tells: how often it keeps its state is no part of that."""
    return run(make_config("conv", *overrides)).summary


def compare_with_local(what: str, tmp_path: Path, data_root: Path, *overrides: str) -> Any:
    """What a run on two nodes told, after it is seen to be that of one process."""
    config = make_config("conv", *overrides, f"tracking.root={tmp_path}/runs")
    expected = locally(*(each for each in overrides if not each.startswith("checkpoint.")))
    on_ray = config.override(["execution.backend=ray", "execution.tries=20"])
    (tmp_path / "config.yaml").write_text(on_ray.to_yaml())
    command = [sys.executable, "-m", "tests.contracts.two_nodes"]
    done = subprocess.run(
        [*command, str(tmp_path / "config.yaml"), str(data_root), what],
        cwd=ROOT,
        env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    # Ray may print lines of its own behind ours
    found = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    assert 3 <= found["changed_in"] < config.rounds, "the run was over before the change"
    assert found["model_sha256"] == expected["model_sha256"]
    assert found["levels"] == expected["levels"]
    return found
