"""Fixtures shared by all tests: a data folder for the session, small configs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from heterofl_ray.config import ExperimentConfig


@pytest.fixture(scope="session")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of data sets that all tests share; embedded ones are converted into it once."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data_root: Path) -> None:
    """No test writes to the user's cache or the working directory."""
    monkeypatch.setenv("HETEROFL_DATA_DIR", str(data_root))
    monkeypatch.setenv("HETEROFL_CACHE", str(data_root.parent / "cache"))
    monkeypatch.setenv("HETEROFL_MLFLOW", "0")  # tests of tracking switch it on
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def tiny() -> ExperimentConfig:
    """A run of a second: a narrow CNN on digits, two levels."""
    return ExperimentConfig.from_dict(
        {
            "data": "digits",
            "model": "conv",
            "mix": "a-c",
            "clients": 20,
            "fraction": 0.2,
            "rounds": 2,
            "local_epochs": 1,
            "network": {"hidden": [8, 8]},
        }
    )


@pytest.fixture
def tiny_text() -> ExperimentConfig:
    """A run of a few seconds: a small Transformer on the embedded text."""
    return ExperimentConfig.from_dict(
        {
            "data": "pydocs",
            "model": "transformer",
            "mix": "a-b",
            "fraction": 0.03,
            "rounds": 2,
            "local_epochs": 1,
            "evaluate_every": 0,
            "network": {"embedding": 16, "heads": 2, "feedforward": 16, "layers": 1},
        }
    )
