"""A journal to send, and an empty MLflow database that is made once and copied."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.info import DataInfo
from heterofl_ray.tracking import events
from heterofl_ray.tracking.journal import Journal

INFO = DataInfo(
    name="digits", kind="images", train=1438, test=359, shape=(1, 8, 8), classes=tuple("0123456789")
)


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Making the tables takes seconds, copying them none."""
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    script = f"import mlflow; mlflow.MlflowClient('sqlite:///{path}').search_experiments()"
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"}
    subprocess.run(
        [sys.executable, "-c", script], check=True, env=environment, capture_output=True,
        cwd=path.parent,
    )  # fmt: skip
    return path


@pytest.fixture
def root(tmp_path: Path, empty_database: Path) -> Path:
    """A folder of runs whose MLflow database is there already."""
    folder = tmp_path / "runs"
    folder.mkdir()
    shutil.copyfile(empty_database, folder / "mlflow.db")
    return folder


@pytest.fixture
def folder(root: Path) -> Path:
    """The folder of a run that has only just begun."""
    folder = root / "digits-a-e-1"
    folder.mkdir()
    config = ExperimentConfig()
    (folder / "config.yaml").write_text(config.to_yaml())
    write(folder, events.start(config, folder, INFO, folder / "digits-0123456789abcdef"))
    return folder


def write(folder: Path, *told: events.Event) -> None:
    journal = Journal(folder)
    for event in told:
        journal.append(event)
    journal.close()


PREDICT = """
import json, sys
import mlflow
if sys.argv[1]:
    mlflow.set_tracking_uri(sys.argv[1])
models = [mlflow.pyfunc.load_model(model) for model in sys.argv[2:]]
print(json.dumps([model.predict(model.input_example).tolist() for model in models]))
"""


def predict_elsewhere(*models: str, uri: str = "") -> list[torch.Tensor]:
    """Logged models' answers to their own examples, in a process that may not unpickle code."""
    done = subprocess.run(
        [sys.executable, "-c", PREDICT, uri, *models],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false"},
    )
    return [torch.tensor(answer) for answer in json.loads(done.stdout.splitlines()[-1])]
