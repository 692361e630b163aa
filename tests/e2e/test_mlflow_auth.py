"""The tracking server of ``cluster/mlflow``: closed without a password, which is nowhere seen."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest

from heterofl_ray import run
from heterofl_ray.cli import main
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.progress import Silent

from .team_server import Server, serving
from .watching import below, open_to_others, words_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("team")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("secrets")) as made:
        yield made


def test_only_the_password_opens(server: Server) -> None:
    path = "/api/2.0/mlflow/experiments/search?max_results=1"
    assert server.status(path) == 401
    assert server.status(path, "password1234") == 401
    assert server.status(path, server.password) == 200


@pytest.mark.parametrize("route", ["assistant/config", "assistant/providers", "%61ssistant/config"])
def test_nobody_gets_to_the_assistant_which_runs_commands(server: Server, route: str) -> None:
    """Not even with a password: to MLflow all who come through a tunnel are on this machine."""
    assert server.status(f"/ajax-api/3.0/mlflow/{route}", server.password) == 403
    assert server.status(f"/ajax-api/3.0/mlflow/{route}") == 403


def test_it_listens_to_this_machine_alone(server: Server) -> None:
    assert open_to_others(below(server.process.pid)) == []


def test_secrets_lie_in_files_of_their_owner_and_nowhere_else(server: Server) -> None:
    names = ("admin_password", "session_key", "database_uri", "auth.ini", "mlflow.db")
    for name in names:
        assert stat.S_IMODE((server.folder / name).stat().st_mode) == 0o600, name
    assert stat.S_IMODE(server.folder.stat().st_mode) == 0o700
    words = [word for process in below(server.process.pid) for word in words_of(process)]
    for name in ("admin_password", "session_key"):
        secret = (server.folder / name).read_text()
        assert len(secret) == 48
        assert not any(secret in word for word in words)
        assert secret not in server.log
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
