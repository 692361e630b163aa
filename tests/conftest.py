"""Fixtures shared by all tests: a data folder for the session, small configs."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from xdist.scheduler import LoadScopeScheduling

from heterofl_ray.config import ExperimentConfig


class Groups(LoadScopeScheduling):
    """Test by test, but files of one ``xdist_group`` after another in one process.

    The tests of a group wait for each other: 'ray' shares one cluster and 'methods' another,
    'nodes' have clusters of their own, 'documented' has the place that pages assume.
    (``--dist loadgroup`` would do it, were its groups known to every version of pytest.)
    """

    def _split_scope(self, nodeid: str) -> str:
        return _group(nodeid.split("::")[0]) or nodeid


@cache
def _group(file: str) -> str | None:
    text = (Path(__file__).parents[1] / file).read_text(encoding="utf-8")
    named = re.search(r'xdist_group\("(\w+)"\)', text)
    return named[1] if named else None


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups:
    return Groups(config, log)


@pytest.fixture(scope="session")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of data sets that all tests share; embedded ones are converted into it once."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="session", autouse=True)
def _session_settings(data_root: Path) -> Iterator[None]:
    """No test writes to the user's cache, nor do the runs and Rays that tests share.

    So workers of such a Ray find the steps that another process compiled.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HETEROFL_DATA_DIR", str(data_root))
        patch.setenv("HETEROFL_CACHE", str(data_root.parent / "cache"))
        patch.setenv("HETEROFL_MLFLOW", "0")
        yield


@pytest.fixture(autouse=True)
def _environment() -> Iterator[None]:
    """What a test sets, a Ray that it starts for one, is not for the tests after it."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test writes to the working directory."""
    monkeypatch.setenv("HETEROFL_MLFLOW", "0")  # tests of tracking switch it on
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _loggers_on() -> None:
    """Libraries that set logging up anew in one test must not silence our loggers in the next."""
    logging.disable(logging.NOTSET)
    logging.root.setLevel(logging.WARNING)  # a module of MLflow's raises it where it is imported
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith("heterofl_ray") and isinstance(logger, logging.Logger):
            logger.disabled, logger.propagate = False, True
            logger.setLevel(logging.NOTSET)


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
