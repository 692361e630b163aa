"""The track commands, as a user calls them."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from heterofl_ray.cli import main
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.info import DataInfo
from heterofl_ray.tracking import events
from heterofl_ray.tracking.journal import DRIVER, Journal, held

INFO = DataInfo(name="digits", kind="images", train=1, test=1, shape=(1, 8, 8), classes=("0",))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run whose server is not there, with two rounds and an end."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    folder = tmp_path / "runs" / "one"
    folder.mkdir(parents=True)
    config = ExperimentConfig().override([f"tracking.uri=http://127.0.0.1:{port}"])
    (folder / "config.yaml").write_text(config.to_yaml())
    journal = Journal(folder)
    journal.append(events.start(config, folder, INFO, folder / "digits-0123456789abcdef"))
    journal.append(events.round_done({"round": 1, "loss": 1.0}))
    journal.append(events.round_done({"round": 2, "loss": 0.5}))
    journal.append(events.end("FINISHED"))
    journal.close()
    return folder


def test_status_of_a_run_that_mlflow_has_nothing_of(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["track", "status", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "run": str(folder),
        "state": "finished",
        "events": 4,
        "sent": 0,
        "left": 4,
        "refused": 0,
        "run_id": "",
        "place": "",
        "problem": "",
    }
    assert main(["track", "status", str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder}: finished, 0 of 4 events sent\n"


def test_status_of_a_run_that_goes_on(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with held(folder, DRIVER):
        assert main(["track", "status", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "running"


@pytest.mark.parametrize("by", ["name", "all"])
def test_a_server_that_is_still_away_is_one_line_and_exit_code_1(
    by: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    which = [str(folder)] if by == "name" else ["--all", "--root", str(folder.parent)]
    assert main(["track", "sync", *which, "--json"]) == 1
    output = capsys.readouterr()
    (state,) = json.loads(output.out)["runs"]
    assert state["left"] == 4
    assert output.err.startswith(f"heterofl-ray: error: 4 events of {folder} not sent: ")
    assert output.err.count("\n") == 1
    assert output.err.endswith(" does not answer\n")
    assert "Traceback" in (folder / "tracking" / "sender.log").read_text()


def test_sending_to_where_the_server_has_moved(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = f"sqlite:///{folder.parent}/moved.db"
    assert main(["track", "sync", str(folder), "--uri", uri, "--json"]) == 0
    (state,) = json.loads(capsys.readouterr().out)["runs"]
    assert (state["sent"], state["left"], state["problem"]) == (4, 0, "")
    assert uri in state["place"]
    assert main(["track", "sync", str(folder), "--uri", uri]) == 0
    assert "all 4 events sent" in capsys.readouterr().out


WRONG = [
    (["sync"], "name a run's folder, or give --all"),
    (["sync", "x", "--all"], "not both"),
    (["sync", "--all", "--root", "nowhere"], "nowhere is not a folder of runs"),
    (["sync", "nowhere"], "nowhere is not the folder of a run"),
    (["sync", "plain"], "was not recorded for MLflow"),
    (["sync", "plain", "--uri", "mlruns"], "--uri='mlruns'"),
    (["status"], "RUN_DIR"),
    (["status", "nowhere"], "nowhere is not the folder of a run"),
    (["status", "plain"], "was not recorded for MLflow"),
    ([], "ACTION"),
]


@pytest.mark.parametrize(("arguments", "says"), WRONG, ids=lambda value: str(value)[-40:])
def test_mistakes_are_one_line_and_exit_code_2(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("plain").mkdir()
    Path("plain/config.yaml").write_text("")
    try:
        code = main(["track", *arguments])
    except SystemExit as stop:
        code = stop.code  # type: ignore[assignment]
    output = capsys.readouterr()
    assert code == 2
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert says in output.err
