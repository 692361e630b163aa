"""A sweep in MLflow: a run, its trials nested in it, each thing once, whatever is killed when."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from heterofl_ray.cli import main
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.tracking import events, journal, recorder
from heterofl_ray.tracking.journal import Sent
from heterofl_ray.tracking.recorder import Recorder
from heterofl_ray.tracking.sender import Sender, follow, unsent
from heterofl_ray.tracking.sweep_sender import SweepSender, sender_of
from heterofl_ray.tracking.sweeps import SweepRecorder

from .conftest import INFO, write
from .test_sender import client, rounds, runs


@pytest.fixture(autouse=True)
def senders(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """MLflow is on; nobody sends but the tests themselves."""
    monkeypatch.setenv("HETEROFL_MLFLOW", "1")
    started: list[Path] = []

    def start(folder: Path) -> Any:
        started.append(folder)
        return subprocess.Popen(["true"])

    monkeypatch.setattr(recorder, "start_sender", start)
    return started


CONFIG = ExperimentConfig().override(["tracking.wait=0"])


@pytest.fixture
def sweep(root: Path) -> Path:
    folder = root / "sweep-digits-1"
    folder.mkdir()
    (folder / "sweep.yaml").write_text("data: digits\n")
    return folder


def record(number: int, run: Path | None, **more: Any) -> dict[str, Any]:
    """A trial as the sweep's file has it."""
    runs = [] if run is None else [f"trials/{number:03d}/{run.name}"]
    found = {
        "number": number, "state": "complete", "runs": runs,
        "values": {"score": 90.0 + number}, "spread": {"score": 0.5},
    }  # fmt: skip
    return {**found, **more}


def records(*trials: dict[str, Any]) -> dict[str, Any]:
    front = [trial["number"] for trial in trials if trial["values"]][-1:]
    objectives = [{"name": "score", "larger": True, "about": "score"}]
    return {"trials": list(trials), "objectives": objectives, "front": front}


def train(sweep: Path, number: int, overrides: list[str], end: str = "FINISHED") -> Path:
    """A trial's run that did two rounds."""
    folder = sweep / "trials" / f"{number:03d}" / "digits-a-e"
    folder.mkdir(parents=True)
    config = CONFIG.override(overrides)
    (folder / "config.yaml").write_text(config.to_yaml())
    write(folder, events.start(config, folder, INFO, folder / "digits-0123"), *rounds(1, 2))
    if end:
        write(folder, events.files(), events.end(end))
    return folder


def test_trials_are_nested_and_have_their_objectives(sweep: Path) -> None:
    with SweepRecorder(CONFIG, sweep, {"sweep.sampler": "tpe"}) as told:
        assert told.overrides()[0] == "tracking.mlflow=true"
        good = train(sweep, 0, told.overrides())
        bad = train(sweep, 2, told.overrides(), "FAILED")
        trials = [record(0, good), record(2, bad, state="failed", values=None, error="oh no")]
        for place, trial in enumerate(trials):
            told.trial(trial, records(*trials[: place + 1]))
        told.trial(trials[0], records(*trials))  # told before
    for _ in range(2):  # sent again, it counts once
        (sweep / "tracking" / "sent.json").unlink(missing_ok=True)
        assert sender_of(sweep).send()
    assert unsent(sweep) == unsent(good) == unsent(bad) == 0
    parent, *nested = sorted(runs(sweep), key=lambda run: "mlflow.parentRunId" in run.data.tags)
    assert parent.info.run_name == sweep.name
    assert parent.data.params["sweep.sampler"] == "tpe"
    assert parent.data.metrics == {"trials_complete": 1.0, "front": 1.0, "best_score": 90.0}
    history = client(sweep).get_metric_history(parent.info.run_id, "trials_complete")
    assert [point.step for point in history] == [0, 2]
    by_number = {run.data.tags["sweep.trial"]: run for run in nested}
    assert set(by_number) == {"0", "2"}
    first, failed = by_number["0"], by_number["2"]
    assert first.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert first.data.metrics["objective_score"] == 90.0
    assert first.data.metrics["objective_score_std"] == 0.5
    assert first.data.metrics["global_accuracy"] == 92.0
    assert first.data.params["mix"] == CONFIG.mix
    assert (failed.info.status, failed.data.tags["sweep.error"]) == ("FAILED", "oh no")


def test_a_trial_never_starts_a_sender_nor_waits(sweep: Path, senders: list[Path]) -> None:
    with SweepRecorder(CONFIG, sweep, {}) as told:
        overrides = told.overrides()
    config = CONFIG.override([*overrides, "tracking.wait=60"])
    folder = sweep / "trials" / "000" / "one"
    folder.mkdir(parents=True)
    senders.clear()
    said: list[str] = []
    with Recorder(config, folder, INFO, folder / "digits-0123") as run:
        run.round_done({"round": 1, "loss": 1.0})
    run.settle(said.append)
    assert senders == []
    assert said == []
    assert journal.last(journal.journal_path(folder))["status"] == "FINISHED"


def test_without_its_sweep_a_trial_waits_and_sync_sends_both(
    sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with SweepRecorder(CONFIG, sweep, {}) as told:
        trial = train(sweep, 0, told.overrides())
    alone = Sender(trial)
    assert not alone.send()
    assert "is a trial whose sweep is not in MLflow yet" in alone.sent.problem
    assert main(["track", "sync", str(sweep), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["left"] == 0
    assert len(runs(sweep)) == 2
    assert unsent(trial) == 0
    assert main(["track", "status", str(sweep)]) == 0


def test_a_killed_sweep_and_its_trials_are_ended_and_go_on(sweep: Path) -> None:
    driver = SweepRecorder(CONFIG, sweep, {})
    with driver as told:
        cut_off = train(sweep, 0, told.overrides(), end="")
    # as if it had been killed: nothing says how it ended
    lines = journal.journal_path(sweep).read_bytes().splitlines(keepends=True)
    journal.journal_path(sweep).write_bytes(lines[0])
    follow(sender_of(sweep))
    assert {run.info.status for run in runs(sweep)} == {"KILLED"}
    with SweepRecorder(CONFIG, sweep, {}) as told:
        assert told.overrides() == driver.overrides()  # the same parent
        write(cut_off, events.resumed(2), *rounds(3, 3), events.files(), events.end("FINISHED"))
        told.known([record(0, cut_off)], records(record(0, cut_off)))
    follow(sender_of(sweep))
    assert {run.info.status for run in runs(sweep)} == {"FINISHED"}
    parent, _ = sorted(runs(sweep), key=lambda run: "mlflow.parentRunId" in run.data.tags)
    assert parent.data.tags["resumed_after_trial"] == "0"


def test_a_trial_that_was_cut_off_is_found_by_its_number(sweep: Path) -> None:
    with SweepRecorder(CONFIG, sweep, {}) as told:
        folder = train(sweep, 3, told.overrides(), "KILLED")
        stopped = record(3, None, state="stopped", values=None, why="ended early")
        told.trial(stopped, records(stopped))
    assert SweepSender(sweep).send()
    (run,) = [run for run in runs(sweep) if "sweep.trial" in run.data.tags]
    assert run.info.run_id == Sent.read(folder).run_id
    assert run.data.tags["sweep.why"] == "ended early"


def test_switched_off_trials_are_too(sweep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HETEROFL_MLFLOW", "0")
    with SweepRecorder(CONFIG, sweep, {}) as told:
        assert told.overrides() == ["tracking.mlflow=false"]
    assert not (sweep / "tracking").exists()


def test_passwords_stay_out_of_trials(sweep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@host:5000")
    with SweepRecorder(CONFIG, sweep, {}) as told:
        assert "tracking.uri=http://host:5000" in told.overrides()
