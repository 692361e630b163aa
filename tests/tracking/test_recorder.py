"""The driver's side: each round told once, whatever crashed; nothing that fails reaches the run."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import DataError, Interrupted
from heterofl_ray.tracking import journal, recorder
from heterofl_ray.tracking.journal import DRIVER, Journal, Sent
from heterofl_ray.tracking.recorder import Recorder

from .conftest import INFO


class Process:
    """A sender that is told to have started, and stays."""

    def poll(self) -> int | None:
        return None


@pytest.fixture(autouse=True)
def senders(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The senders that would have been started."""
    started: list[Path] = []

    def start(folder: Path) -> Process:
        started.append(folder)
        return Process()

    monkeypatch.setenv("HETEROFL_MLFLOW", "1")
    monkeypatch.setattr(recorder, "start_sender", start)
    return started


def make(folder: Path, *overrides: str) -> Recorder:
    folder.mkdir(exist_ok=True)
    config = ExperimentConfig().override(["tracking.wait=0", *overrides])
    return Recorder(config, folder, INFO, folder / "digits-0123456789abcdef")


def row(number: int, seconds: float = 1.0) -> dict[str, int | float | None]:
    return {"round": number, "seconds": seconds}


def told(folder: Path, kind: str) -> list[dict[str, Any]]:
    entries = journal.read(journal.journal_path(folder))
    return [entry.event for entry in entries if entry.event["kind"] == kind]


def steps(folder: Path) -> list[int]:
    return [event["step"] for event in told(folder, "metrics")]


def test_a_run_from_start_to_end(tmp_path: Path, senders: list[Path]) -> None:
    folder = tmp_path / "run"
    with make(folder) as recorder:
        assert senders == []  # the start is not slowed
        recorder.round_done(row(1))
        assert senders == [folder]
        recorder.round_done(row(2))
    kinds = [entry.event["kind"] for entry in journal.read(journal.journal_path(folder))]
    assert kinds == ["start", "metrics", "metrics", "system", "files", "end"]
    assert told(folder, "end")[0]["status"] == "FINISHED"
    assert senders == [folder]


@pytest.mark.parametrize(
    ("error", "status"),
    [(Interrupted(130), "KILLED"), (KeyboardInterrupt(), "KILLED"), (DataError("x"), "FAILED")],
    ids=["interrupted", "keyboard", "failed"],
)
def test_how_it_is_left_says_how_it_ended(
    tmp_path: Path, error: BaseException, status: str, senders: list[Path]
) -> None:
    with pytest.raises(type(error)), make(tmp_path / "run"):
        raise error
    assert told(tmp_path / "run", "end")[0]["status"] == status
    assert senders == [tmp_path / "run"]  # also for a run that never did a round


def test_rounds_done_again_after_a_crash_are_told_once(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with suppress(RuntimeError), make(folder) as first:
        for number in (1, 2, 3):
            first.round_done(row(number, seconds=1.0))
        raise RuntimeError
    with make(folder) as second:  # its checkpoint was of round 2
        second.resumed([row(1), row(2)])
        for number in (3, 4):
            second.round_done(row(number, seconds=9.0))
    assert steps(folder) == [1, 2, 3, 4]
    assert [event["values"]["seconds"] for event in told(folder, "metrics")] == [1, 1, 1, 9]
    assert len(told(folder, "start")) == 1
    assert told(folder, "resumed")[0]["round"] == 2
    assert [event["step"] for event in told(folder, "system")] == [0, 1]


def test_rounds_that_a_crash_kept_from_the_journal_are_told_on_resuming(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with suppress(RuntimeError), make(folder) as first:
        first.round_done(row(1))
        raise RuntimeError
    with make(folder) as second:
        second.resumed([row(1), row(2), row(3)])
        second.round_done(row(4))
    assert steps(folder) == [1, 2, 3, 4]


class Disk:
    """A file on a disk that takes no more than a few bytes of a line while it is full."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.full = False

    def write(self, line: bytes) -> int:
        return int(self.file.write(line[:10] if self.full else line))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def test_what_a_full_disk_does_not_take_is_written_once_it_does(tmp_path: Path) -> None:
    with make(tmp_path / "run") as recorder:
        assert recorder._journal is not None
        disk = recorder._journal._file = Disk(recorder._journal._file)
        recorder.round_done(row(1))
        disk.full = True
        with pytest.warns(UserWarning, match="cannot be kept yet: .*No space left"):
            recorder.round_done(row(2))
        recorder.round_done(row(3))  # it is not said again
        assert steps(tmp_path / "run") == [1]
        disk.full = False
        recorder.round_done(row(4))
        assert steps(tmp_path / "run") == [1, 2, 3, 4]


def test_a_disk_that_stays_full_costs_the_recording_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    with make(tmp_path / "run") as recorder:
        recorder.round_done(row(1))

        def full(self: Journal) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(Journal, "_write", full)
        with pytest.warns(UserWarning, match="cannot be kept yet: .*No space left"):
            recorder.round_done(row(2))
        recorder.round_done(row(3))
    recorder.settle(said.append)
    assert any("events for MLflow are lost" in line for line in said)
    assert steps(tmp_path / "run") == [1]


def test_a_run_has_one_driver(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with make(folder):
        assert journal.is_held(folder, DRIVER)
        with pytest.raises(DataError, match="going on in another process"), make(folder):
            pass
    assert not journal.is_held(folder, DRIVER)


def test_switched_off_it_leaves_nothing(tmp_path: Path, senders: list[Path]) -> None:
    said: list[str] = []
    with make(tmp_path / "run", "tracking.mlflow=false") as recorder:
        recorder.round_done(row(1))
    recorder.settle(said.append)
    assert list((tmp_path / "run").iterdir()) == []
    assert senders == []
    assert said == []


def test_a_sender_that_dies_is_started_again_but_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, senders: list[Path]
) -> None:
    monkeypatch.setattr(Process, "poll", lambda self: 1)
    with make(tmp_path / "run") as recorder:
        for number in range(1, 9):
            recorder.round_done(row(number))
    assert len(senders) == 3


def test_the_last_line_says_what_is_missing_or_where_the_run_is(tmp_path: Path) -> None:
    folder, said = tmp_path / "run", list[str]()
    with make(folder) as recorder:
        recorder.round_done(row(1))
    Sent(problem="connection refused", failures=3).write(folder)
    recorder.settle(said.append)
    assert said == [f"5 events not sent yet (connection refused): heterofl-ray track sync {folder}"]
    size = journal.journal_path(folder).stat().st_size
    Sent(offset=size, place="http://host/#/runs/1").write(folder)
    recorder.settle(said.append)
    assert said[1:] == ["MLflow: http://host/#/runs/1"]
