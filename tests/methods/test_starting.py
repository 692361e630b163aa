"""LG-FedAvg from a model that is there: the same bytes again, or a line that says what is wrong."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from heterofl_ray import run
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.result import RunResult
from heterofl_ray.runner import make_backend, make_bench, resume, settled


@pytest.fixture
def fedavg(tiny: ExperimentConfig) -> RunResult:
    return run(tiny.override(["method=fedavg", "evaluate_every=0", "rounds=1"]))


@pytest.fixture
def config(tiny: ExperimentConfig, fedavg: RunResult) -> ExperimentConfig:
    start = f"lg.start={fedavg.summary['run_dir']}"
    return tiny.override(["method=lg-fedavg", "evaluate_every=0", "checkpoint.keep=9", start])


def test_it_begins_from_the_runs_model(
    config: ExperimentConfig, fedavg: RunResult, data_root: Path
) -> None:
    once = settled(config)
    assert settled(once) == once
    assert once.lg.start_sha256 == fedavg.summary["model_sha256"]
    backend = make_backend(make_bench(once, data_root))
    found = backend.parameters()
    backend.close()
    assert all(torch.equal(found[name], tensor) for name, tensor in fedavg.parameters.items())


def test_the_model_counts_and_not_where_it_lies(
    config: ExperimentConfig, fedavg: RunResult, tmp_path: Path
) -> None:
    moved = tmp_path / "elsewhere.safetensors"
    shutil.copy(Path(fedavg.summary["run_dir"]) / "model.safetensors", moved)
    there = config.override([f"lg.start={moved}"])
    assert settled(there).hash() == settled(config).hash()
    fresh = config.override(["lg.start="])
    assert settled(fresh).hash() != settled(config).hash()
    digests = {run(one).summary["model_sha256"] for one in (config, there, fresh)}
    assert len(digests) == 2


def test_resumed_it_is_the_same_unless_the_file_is_another(
    config: ExperimentConfig, fedavg: RunResult
) -> None:
    whole = run(config)
    folder = Path(whole.summary["run_dir"])
    shutil.rmtree(folder / "checkpoints" / "round-000002")
    (folder / "result.json").unlink()
    assert resume(folder).summary["model_sha256"] == whole.summary["model_sha256"]
    shutil.copy(folder / "model.safetensors", fedavg.summary["run_dir"])
    with pytest.raises(ConfigError, match=r"lg\.start=.* it is another model now than that of"):
        resume(folder)


def test_what_cannot_be_a_start_is_told(config: ExperimentConfig, data_root: Path) -> None:
    with pytest.raises(ConfigError, match=r"lg\.start='nowhere' .*a finished run's folder, or its"):
        settled(config.override(["lg.start=nowhere"]))
    wider = settled(config.override(["network.hidden=[8,16]"]))
    with pytest.raises(ConfigError, match=r"lg\.start=.*has no blocks\.5\.weight of shape \(16, 8"):
        make_bench(wider, data_root)
    with pytest.raises(ConfigError, match=r"lg\.start_sha256='ab' .*lg\.start names no model"):
        config.override(["lg.start=", "lg.start_sha256=ab"])
