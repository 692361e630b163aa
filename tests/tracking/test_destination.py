"""Where runs are recorded: the setting before the environment before the database of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from heterofl_ray.cli import main
from heterofl_ray.errors import ConfigError
from heterofl_ray.setting_groups import TrackingConfig
from heterofl_ray.tracking.destination import (
    chosen_uri,
    full_uri,
    is_on,
    place_of,
    without_password,
)


def test_the_setting_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen_uri(TrackingConfig()) == ""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://environment:5000")
    assert chosen_uri(TrackingConfig()) == "http://environment:5000"
    assert chosen_uri(TrackingConfig(uri="http://setting:5000")) == "http://setting:5000"


def test_the_database_lies_beside_the_runs(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "one"
    assert full_uri("", folder) == f"sqlite:///{tmp_path}/runs/mlflow.db"


def test_passwords_stay_in_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secret = "https://me:secret@host:5000/path"
    assert without_password(secret) == "https://host:5000/path"
    assert without_password("sqlite:////a/b@c.db") == "sqlite:////a/b@c.db"
    assert full_uri("https://host:5000/path", tmp_path) == "https://host:5000/path"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", secret)
    assert full_uri("https://host:5000/path", tmp_path) == secret
    assert full_uri("https://other:5000", tmp_path) == "https://other:5000"
    assert place_of(secret, "1", "r") == "https://host:5000/path/#/experiments/1/runs/r"


@pytest.mark.parametrize("value", ["0", "false", "no", "False"])
def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.delenv("HETEROFL_MLFLOW")
    assert is_on(TrackingConfig())
    assert not is_on(TrackingConfig(mlflow=False))
    monkeypatch.setenv("HETEROFL_MLFLOW", value)
    assert not is_on(TrackingConfig())


@pytest.mark.parametrize("uri", ["mlruns", "file:///tmp/x", "/tmp/mlruns", "htp://host", "host:50"])
def test_addresses_that_are_no_server_and_no_database(uri: str) -> None:
    with pytest.raises(ConfigError, match=r"tracking\.uri.*http://host:5000"):
        TrackingConfig(uri=uri)


@pytest.mark.parametrize("uri", ["https://me:secret@host:5000", "postgresql://me:secret@host/x"])
def test_settings_are_no_place_for_a_password(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    """They are written into the run's folder and its page in MLflow."""
    for words in (
        ["run", "digits-dynamic", "--set", f"tracking.uri={uri}"],
        ["track", "sync", "--all", "--root", ".", "--uri", uri],
    ):
        assert main(words) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "no place for a password" in error
        assert "MLFLOW_TRACKING_PASSWORD" in error
        assert "secret" not in error
    assert TrackingConfig(uri="postgresql://me@host/x").uri == "postgresql://me@host/x"


def test_an_experiment_has_a_name() -> None:
    with pytest.raises(ConfigError, match=r"tracking\.experiment"):
        TrackingConfig(experiment=" ")


@pytest.mark.parametrize("by", ["setting", "environment"])
def test_a_wrong_address_is_one_line_before_anything_begins(
    by: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HETEROFL_MLFLOW", "1")
    arguments = ["run", "digits-dynamic"]
    if by == "setting":
        arguments += ["--set", "tracking.uri=mlruns"]
    else:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", "mlruns")
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert ("tracking.uri='mlruns'" if by == "setting" else "MLFLOW_TRACKING_URI='mlruns'") in error
    assert not Path("runs").exists()
