"""The tracking server of ``cluster/mlflow`` on PostgreSQL: runs and users lie there alone."""

from __future__ import annotations

import secrets
import stat
from collections.abc import Iterator

import mlflow
import pytest
from sqlalchemy import create_engine, text

from . import postgresql
from .team_server import Server, serving
from .watching import below, words_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("team"),
    pytest.mark.skipif(postgresql.programs() is None, reason="PostgreSQL is not installed here"),
]

PASSWORD = f"{secrets.token_hex(16)}@:/%"
"""With what an address has to write in another way."""


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with postgresql.database(PASSWORD) as made:
        yield made


@pytest.fixture(scope="module")
def server(uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "database_uri").write_text(uri)
    with serving(folder) as made:
        yield made


def test_users_and_runs_lie_in_the_database(
    server: Server, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/api/2.0/mlflow/experiments/search?max_results=1"
    assert server.status(path) == 401
    assert server.status(path, server.password) == 200
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "admin")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", server.password)
    client = mlflow.MlflowClient(server.uri)
    run = client.create_run(client.create_experiment("on PostgreSQL"))
    client.log_metric(run.info.run_id, "loss", 0.5, step=3)

    engine = create_engine(uri)
    with engine.connect() as database:
        points = database.execute(text("SELECT run_uuid, key, value, step FROM metrics")).all()
        users = database.execute(text("SELECT username FROM users")).all()
    engine.dispose()
    assert points == [(run.info.run_id, "loss", 0.5, 3)]
    assert users == [("admin",)]
    assert list(server.folder.glob("*.db")) == []


def test_the_databases_password_is_said_nowhere(server: Server, uri: str) -> None:
    for name in ("database_uri", "auth.ini"):
        assert stat.S_IMODE((server.folder / name).stat().st_mode) == 0o600, name
    words = [word for process in below(server.process.pid) for word in words_of(process)]
    for secret in (PASSWORD, uri.split(":")[2].partition("@")[0]):
        assert not any(secret in word for word in words)
        assert secret not in server.log
