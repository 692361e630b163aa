"""A sweep killed in the middle and gone on with: every trial once, in Optuna and in MLflow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import mlflow
import optuna
import psutil
import pytest
from optuna.trial import TrialState

pytestmark = pytest.mark.slow

COMMAND = [str(Path(sys.executable).parent / "heterofl-ray"), "sweep"]
FILE = """
data: digits
model: mlp
clients: 10
fraction: 0.4
rounds: 2
local_epochs: 1
network: {hidden: [8]}
execution: {address: local}
tracking: {wait: 300}
sweep:
  trials: 20
  objectives: [score]
  constraints: {client_parameters: 80%}
  space:
    shrink: {low: 0.3, high: 0.7}
    levels: {low: 2, high: 3}
    shares: true
"""
TRIALS, BEFORE = 20, 4


def ended(folder: Path) -> list[int]:
    """Trials that came to their end, as the sweep's file has them."""
    try:
        records = json.loads((folder / "trials.json").read_text())
    except FileNotFoundError:
        return []
    return [trial["number"] for trial in records["trials"] if trial["state"] == "complete"]


def test_killed_and_resumed(tmp_path: Path, data_root: Path) -> None:
    (tmp_path / "my.yaml").write_text(FILE)
    environment = {**os.environ, "HETEROFL_MLFLOW": "1", "HETEROFL_DATA_DIR": str(data_root)}
    process = subprocess.Popen([*COMMAND, "my.yaml"], cwd=tmp_path, env=environment)
    try:
        folder, deadline = None, time.monotonic() + 600
        while folder is None or len(ended(folder)) < BEFORE:
            assert process.poll() is None
            assert time.monotonic() < deadline
            folder = next((tmp_path / "runs").glob("sweep-*"), None)
            time.sleep(0.02)
    finally:
        below = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGKILL)
        process.wait()
    psutil.wait_procs(below, timeout=30)
    done = ended(folder)
    assert BEFORE <= len(done) < TRIALS
    finished = {
        path: path.stat().st_mtime_ns
        for number in done
        for path in folder.glob(f"trials/{number:03d}/*/result.json")
    }
    assert len(finished) == len(done)

    again = subprocess.run(
        [*COMMAND, "--resume", str(folder), "--json"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["trials"]["complete"] == TRIALS
    for path, when in finished.items():
        assert path.stat().st_mtime_ns == when, "a finished trial was repeated"

    study = optuna.load_study(study_name=folder.name, storage=f"sqlite:///{folder / 'optuna.db'}")
    complete = study.get_trials(states=(TrialState.COMPLETE,))
    assert len(complete) == TRIALS
    assert len({trial.user_attrs["hash"] for trial in complete}) == TRIALS
    assert not study.get_trials(states=(TrialState.RUNNING, TrialState.WAITING))
    assert {trial.number for trial in complete} >= set(done)
    for trial in complete:  # one run each
        assert len(list(folder.glob(f"trials/{trial.number:03d}/*/result.json"))) == 1

    client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'runs' / 'mlflow.db'}")
    (experiment,) = [e for e in client.search_experiments() if e.name == "heterofl-ray"]
    runs = client.search_runs([experiment.experiment_id])
    (parent,) = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    nested = [run for run in runs if run is not parent]
    assert {run.data.tags["mlflow.parentRunId"] for run in nested} == {parent.info.run_id}
    told = {int(r.data.tags["sweep.trial"]): r for r in nested if "sweep.trial" in r.data.tags}
    assert set(told) == {trial.number for trial in complete}
    for trial in complete:
        metrics = told[trial.number].data.metrics
        assert metrics["objective_score"] == trial.values[0]
        assert told[trial.number].info.status == "FINISHED"
    assert parent.info.status == "FINISHED"
    assert parent.data.metrics["trials_complete"] == TRIALS
    figures = {file.path for file in client.list_artifacts(parent.info.run_id, "report")}
    assert {"report/front.png", "report/importance.png", "report/coordinates.png"} <= figures
    best = {trial.number for trial in study.best_trials}
    for number, run in told.items():  # the front's models, and no others
        there = {file.path for file in client.list_artifacts(run.info.run_id)}
        assert ("submodels" in there) == (number in best)
