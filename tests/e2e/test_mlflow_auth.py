"""The tracking server of ``cluster/mlflow``: closed without a password, which is nowhere seen."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import stat
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import mlflow
import psutil
import pytest

from heterofl_ray import run
from heterofl_ray.cli import main
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.progress import Silent

from .nodes import free_ports

pytestmark = pytest.mark.slow

SERVE = Path(__file__).parents[2] / "cluster" / "mlflow" / "serve.sh"


@dataclass(frozen=True)
class Server:
    uri: str
    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def password(self) -> str:
        return (self.folder / "admin_password").read_text()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("secrets")
    (port,) = free_ports(1)
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [str(SERVE), "--port", str(port), "--workers", "1"],
            env={**os.environ, "MLFLOW_SECRETS": str(folder)},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    made = Server(f"http://127.0.0.1:{port}", folder, process)
    try:
        limit = time.monotonic() + 240
        while status(made, "/health") != 200:
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < limit, (folder / "log").read_text()
            time.sleep(0.3)
        yield made
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # all are of the session made for it
        process.wait()


def status(server: Server, path: str, password: str | None = None) -> int:
    shown = base64.b64encode(f"admin:{password}".encode()).decode()
    headers = {} if password is None else {"Authorization": f"Basic {shown}"}
    try:
        question = urllib.request.Request(server.uri + path, headers=headers)
        with urllib.request.urlopen(question, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def test_only_the_password_opens(server: Server) -> None:
    path = "/api/2.0/mlflow/experiments/search?max_results=1"
    assert status(server, path) == 401
    assert status(server, path, "password1234") == 401
    assert status(server, path, server.password) == 200


def test_it_listens_to_this_machine_alone(server: Server) -> None:
    first = psutil.Process(server.process.pid)
    ports = [
        each.laddr.ip
        for process in [first, *first.children(recursive=True)]
        for each in process.net_connections("tcp")
        if each.status == psutil.CONN_LISTEN
    ]
    assert set(ports) == {"127.0.0.1"}


def test_secrets_lie_in_files_of_their_owner_and_nowhere_else(server: Server) -> None:
    names = ("admin_password", "session_key", "database_uri", "auth.ini", "mlflow.db")
    for name in names:
        assert stat.S_IMODE((server.folder / name).stat().st_mode) == 0o600, name
    assert stat.S_IMODE(server.folder.stat().st_mode) == 0o700
    first = psutil.Process(server.process.pid)
    words = [word for each in [first, *first.children(recursive=True)] for word in each.cmdline()]
    log = (server.folder / "log").read_text()
    for name in ("admin_password", "session_key"):
        secret = (server.folder / name).read_text()
        assert len(secret) == 48
        assert not any(secret in word for word in words)
        assert secret not in log
        assert secret.encode() not in (server.folder / "mlflow.db").read_bytes()


class Listening(Silent):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


def test_a_run_is_recorded_once_it_has_the_password(
    server: Server,
    tiny: ExperimentConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without it the run is unharmed, and what it has to tell is kept."""
    monkeypatch.setenv("HOME", str(tmp_path))  # no credentials of the user's own
    monkeypatch.setenv("HETEROFL_MLFLOW", "1")
    monkeypatch.delenv("MLFLOW_TRACKING_USERNAME", raising=False)
    monkeypatch.delenv("MLFLOW_TRACKING_PASSWORD", raising=False)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")  # a busy machine
    progress = Listening()
    config = tiny.override(
        [f"tracking.root={tmp_path}/runs", f"tracking.uri={server.uri}", "tracking.wait=10"]
    )
    folder = Path(run(config, progress=progress).summary["run_dir"])
    assert "not sent" in progress.said[-1]
    assert main(["track", "sync", str(folder)]) == 1
    refused = capsys.readouterr().err.splitlines()[-1]
    assert refused.endswith(
        f"{server.uri} asks for another name and password than MLFLOW_TRACKING_USERNAME and "
        "MLFLOW_TRACKING_PASSWORD give"
    )

    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "admin")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", server.password)
    assert main(["track", "sync", str(folder), "--json"]) == 0
    (state,) = json.loads(capsys.readouterr().out.splitlines()[-1])["runs"]
    assert state["left"] == 0
    assert mlflow.MlflowClient(server.uri).get_run(state["run_id"]).info.status == "FINISHED"
    for path in (tmp_path / "runs").rglob("*"):
        assert not path.is_file() or server.password.encode() not in path.read_bytes(), path
