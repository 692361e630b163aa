"""A real MLflow server that is killed in mid-run: training goes on unharmed, nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import mlflow
import pyarrow.parquet as pq
import pytest

from heterofl_ray import presets, run
from heterofl_ray.cli import main
from heterofl_ray.progress import Silent
from heterofl_ray.simulation import RoundRecord
from heterofl_ray.tracking.history import Row

pytestmark = pytest.mark.slow

QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
"""No news home, and no processes for jobs that nobody asks for."""


class Server:
    """``mlflow server`` on a port of this machine; may be killed and started again."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
        self.folder = folder
        self.port = port
        self.uri = f"http://127.0.0.1:{port}"

    def start(self) -> None:
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1"),
                *("--port", str(self.port), "--workers", "1"),
                *("--backend-store-uri", f"sqlite:///{self.folder}/server.db"),
                *("--artifacts-destination", str(self.folder / "files")),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, **QUIET},
        )
        until = time.monotonic() + 240
        while not self._answers():
            if time.monotonic() > until or self._process.poll() is not None:
                raise TimeoutError("the MLflow server does not come up")
            time.sleep(0.2)

    def kill(self) -> None:
        """The server and its workers, at once; all are of the session that was made for it."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    server = Server(folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()


class KillsServer(Silent):
    """Kills the server after a round, once it has been told the first ones."""

    def __init__(self, server: Server, root: Path, at: int) -> None:
        self.server = server
        self.root = root
        self.at = at
        self.said: list[str] = []

    def update(self, record: RoundRecord, row: Row) -> None:
        if record.round_number == self.at:
            wait_for_offset(self.root)
            self.server.kill()

    def say(self, text: str) -> None:
        self.said.append(text)


def wait_for_offset(root: Path) -> None:
    """Until something was sent."""
    until = time.monotonic() + 240
    while time.monotonic() < until:
        for path in root.glob("*/tracking/sent.json"):
            if json.loads(path.read_text())["offset"]:
                return
        time.sleep(0.1)
    raise TimeoutError("nothing was sent")


def test_a_server_killed_in_mid_run_costs_nothing_and_misses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    short = ["mix=a-e", "rounds=6", "local_epochs=1", "network.hidden=[8,8]", "evaluate_every=2"]
    config = presets.digits_dynamic().override(short)
    untracked = run(config.override([f"tracking.root={tmp_path}/plain"])).summary

    monkeypatch.setenv("HETEROFL_MLFLOW", "1")
    root = tmp_path / "runs"
    with serving(tmp_path) as server:
        progress = KillsServer(server, root, at=3)
        where = [f"tracking.root={root}", f"tracking.uri={server.uri}", "tracking.wait=600"]
        tracked = config.override(where)
        summary = run(tracked, progress=progress).summary
        folder = Path(summary["run_dir"])
        assert summary["model_sha256"] == untracked["model_sha256"]
        assert summary["global"] == untracked["global"]

        ended = json.loads((folder / "tracking" / "journal.jsonl").read_text().splitlines()[-1])
        waited = time.time() - ended["time"] / 1000
        assert waited < 300  # of the 600 s it would wait for a server that answers
        assert "events not sent yet" in progress.said[-1]
        assert f"heterofl-ray track sync {folder}" in progress.said[-1]

        assert main(["track", "sync", str(folder)]) == 1
        error = capsys.readouterr().err.splitlines()
        assert error[-1].startswith("heterofl-ray: error: ")
        assert error[-1].endswith(f"{server.uri} does not answer")

        server.start()
        assert main(["track", "sync", str(folder), "--json"]) == 0
        (state,) = json.loads(capsys.readouterr().out.splitlines()[-1])["runs"]
        assert state["left"] == 0
        assert state["sent"] == state["events"]
        assert state["place"].startswith(f"{server.uri}/#/experiments/")
        check(server.uri, folder, state["run_id"])


def check(uri: str, folder: Path, run_id: str) -> None:
    """Every metric of every round, each once; the run's end; its files and its model."""
    client = mlflow.MlflowClient(uri)
    found = client.get_run(run_id)
    assert found.info.status == "FINISHED"
    assert len(client.search_runs([found.info.experiment_id])) == 1
    rows = pq.read_table(folder / "history.parquet").to_pylist()
    assert [row["round"] for row in rows] == [1, 2, 3, 4, 5, 6]
    for name in rows[0].keys() - {"round"}:
        expected = [(row["round"], row[name]) for row in rows if row[name] is not None]
        history = client.get_metric_history(run_id, name) if expected else []
        assert [(point.step, point.value) for point in history] == expected, name
    assert {"run", "submodels", "report"} <= {f.path for f in client.list_artifacts(run_id)}
    assert len(found.outputs.model_outputs) == 1
    logged = client.get_logged_model(found.outputs.model_outputs[0].model_id)
    assert logged.status == "READY"
