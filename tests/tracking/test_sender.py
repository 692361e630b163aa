"""The sender against a real MLflow database: everything arrives, and arrives once."""

from __future__ import annotations

import math
import socket
from collections import Counter
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.entities import Run

from heterofl_ray.errors import DataError
from heterofl_ray.tracking import events, journal
from heterofl_ray.tracking.journal import Sent
from heterofl_ray.tracking.sender import Sender, follow, groups, unsent

from .conftest import write

Point = tuple[int, float, int]
"""A metric's step, value and time."""


def client(folder: Path) -> mlflow.MlflowClient:
    return mlflow.MlflowClient(f"sqlite:///{folder.parent}/mlflow.db")


def runs(folder: Path) -> list[Run]:
    store = client(folder)
    found = [experiment.experiment_id for experiment in store.search_experiments()]
    return list(store.search_runs(found))


def points(folder: Path) -> dict[str, list[Point]]:
    (run,) = runs(folder)
    return {
        name: [
            (point.step, point.value, point.timestamp)
            for point in client(folder).get_metric_history(run.info.run_id, name)
        ]
        for name in run.data.metrics
    }


def told(folder: Path) -> dict[str, list[Point]]:
    """The same, as the journal has it."""
    expected: dict[str, list[Point]] = {}
    for entry in journal.read(journal.journal_path(folder)):
        event = entry.event
        for name, value in event.get("values", {}).items():
            expected.setdefault(name, []).append((event["step"], value, event["time"]))
    return expected


def rounds(first: int, last: int) -> list[events.Event]:
    return [
        events.round_done({"round": t, "loss": 1 / t, "lr": 0.1, "global_accuracy": 90.0 + t})
        for t in range(first, last + 1)
    ]


def test_everything_arrives_once(folder: Path) -> None:
    write(folder, *rounds(1, 3), events.sample(0, {"cpu_utilization_percentage": 50.0}))
    sender = Sender(folder)
    assert sender.send()
    write(folder, *rounds(4, 5), events.end("FINISHED"))
    assert sender.send()
    assert unsent(folder) == 0
    assert points(folder) == told(folder)
    assert [step for step, _, _ in points(folder)["loss"]] == [1, 2, 3, 4, 5]
    (run,) = runs(folder)
    start = journal.read(journal.journal_path(folder))[0].event
    assert run.data.params == start["params"]
    assert run.data.tags["config_hash"] == start["tags"]["config_hash"]
    assert run.info.status == "FINISHED"
    assert run.info.start_time == start["time"]
    assert run.info.end_time == journal.last(journal.journal_path(folder))["time"]
    assert run.info.run_name == folder.name
    (data,) = run.inputs.dataset_inputs
    assert (data.dataset.name, data.dataset.digest) == ("digits", "0123456789abcdef")
    place = mlflow.data.get_source(data).uri
    assert place == (folder / "digits-0123456789abcdef").as_uri()
    assert Path(run.info.artifact_uri.removeprefix("file://")).is_relative_to(
        folder.parent / "mlartifacts"
    )


def test_what_is_sent_again_counts_once(folder: Path) -> None:
    nan = events.round_done({"round": 4, "loss": math.nan})
    write(folder, *rounds(1, 3), nan, events.end("FINISHED"))
    assert Sender(folder).send()
    before = points(folder)
    (folder / "tracking" / "sent.json").unlink()
    assert Sender(folder).send()
    assert len(runs(folder)) == 1
    assert Counter(map(str, points(folder)["loss"])) == Counter(map(str, before["loss"]))
    assert {name: len(found) for name, found in points(folder).items()} == {
        "loss": 4,
        "lr": 3,
        "global_accuracy": 3,
    }
    (run,) = runs(folder)
    assert len(run.inputs.dataset_inputs) == 1


@pytest.mark.parametrize("after", range(4))
def test_a_crash_between_sending_and_noting_it(
    folder: Path, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sender dies right before its ``after``-th note is on disk: that it has made the run,
    sent the beginning, sent the rounds, sent the end."""
    write(folder, *rounds(1, 3), events.end("FINISHED"))
    notes = 0
    plain = Sent.write

    def die(self: Sent, place: Path) -> None:
        nonlocal notes
        if notes == after:
            raise SystemExit
        notes += 1
        plain(self, place)

    with monkeypatch.context() as patch:
        patch.setattr(Sent, "write", die)
        with pytest.raises(SystemExit):
            Sender(folder).send()
    assert unsent(folder) > 0
    assert Sender(folder).send()
    assert unsent(folder) == 0
    assert points(folder) == told(folder)


def test_a_run_made_twice_by_a_slow_server_is_one(folder: Path) -> None:
    write(folder, *rounds(1, 2))
    sender = Sender(folder)
    assert sender.send()
    (run,) = runs(folder)
    key = {"heterofl.key": run.data.tags["heterofl.key"]}
    client(folder).create_run(run.info.experiment_id, tags=key)
    assert len(runs(folder)) == 2
    (folder / "tracking" / "sent.json").unlink()
    assert Sender(folder).send()
    assert points(folder) == told(folder)


def test_a_refused_event_does_not_hold_up_the_others(folder: Path) -> None:
    bad = events.round_done({"round": 2, "not a name!": 1.0})
    write(folder, *rounds(1, 1), bad, *rounds(3, 4), events.end("FINISHED"))
    sender = Sender(folder)
    assert sender.send()
    assert sender.sent.refused == 1
    assert unsent(folder) == 0
    assert [step for step, _, _ in points(folder)["loss"]] == [1, 3, 4]
    assert runs(folder)[0].info.status == "FINISHED"


def test_a_damaged_line_does_not_hold_up_the_others(folder: Path) -> None:
    write(folder, *rounds(1, 1))
    with journal.journal_path(folder).open("ab") as file:
        file.write(b"\0\0\0\n")
    write(folder, *rounds(2, 2))
    assert Sender(folder).send()
    assert [step for step, _, _ in points(folder)["loss"]] == [1, 2]


def test_a_server_that_is_away(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    write(folder, *rounds(1, 2))
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    away = Sender(folder, f"http://127.0.0.1:{port}")
    assert not away.send()
    assert not away.send()
    assert away.sent.failures == 2
    assert away.sent.problem == f"http://127.0.0.1:{port} does not answer"
    assert Sent.read(folder).offset == 0
    assert Sender(folder).send()
    assert Sent.read(folder).problem == ""
    assert points(folder) == told(folder)


def test_a_driver_that_vanished_was_killed(folder: Path) -> None:
    write(folder, *rounds(1, 2))
    follow(Sender(folder))
    (run,) = runs(folder)
    assert run.info.status == "KILLED"
    assert run.info.end_time == journal.last(journal.journal_path(folder))["time"]


def test_what_the_driver_says_while_things_are_sent_is_not_missed(folder: Path) -> None:
    class Busy(Sender):
        """The driver says its last just after this one has looked."""

        looks = 0

        def send(self) -> bool:
            self.looks += 1
            done = super().send()
            if self.looks == 1:
                write(folder, *rounds(2, 2), events.end("FINISHED"))
            return done

    write(folder, *rounds(1, 1))
    with journal.held(folder, journal.DRIVER):
        follow(Busy(folder))
    assert unsent(folder) == 0
    assert points(folder) == told(folder)
    assert runs(folder)[0].info.status == "FINISHED"


def test_a_resumed_run_is_the_same_one(folder: Path) -> None:
    write(folder, *rounds(1, 2), events.end("KILLED"))
    assert Sender(folder).send()
    assert runs(folder)[0].info.status == "KILLED"
    write(folder, events.resumed(2))
    assert Sender(folder).send()
    assert runs(folder)[0].info.status == "RUNNING"
    write(folder, *rounds(3, 3), events.end("FAILED"))
    assert Sender(folder).send()
    (run,) = runs(folder)
    assert run.info.status == "FAILED"
    assert run.data.tags["resumed_after_round"] == "2"
    assert points(folder) == told(folder)


def test_metrics_go_in_requests_that_mlflow_takes(folder: Path) -> None:
    wide = [
        events.round_done({"round": t, **{f"m{n}": float(n + t) for n in range(60)}})
        for t in range(1, 61)
    ]
    write(folder, *wide)
    entries = journal.read(journal.journal_path(folder))
    assert [len(group) for group in groups(entries)] == [1, 50, 10]
    assert Sender(folder).send()
    assert points(folder) == told(folder)


def test_no_journal_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no journal"):
        Sender(tmp_path)


def test_a_model_that_cannot_be_logged_does_not_hold_up_the_end(folder: Path) -> None:
    (folder / "result.json").write_text("{}")  # neither a report nor a model can be made of it
    write(folder, *rounds(1, 1), events.files(), events.end("FINISHED"))
    assert Sender(folder).send()
    (run,) = runs(folder)
    assert run.info.status == "FINISHED"
    models = client(folder).search_logged_models([run.info.experiment_id])
    assert [model.status for model in models] == ["FAILED"]


def test_files_are_replaced_not_added(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped run has a history but no model yet; sent again, its files are the newer ones."""
    (folder / "history.parquet").write_bytes(b"one")
    write(folder, *rounds(1, 1), events.files())
    assert Sender(folder).send()
    (folder / "history.parquet").write_bytes(b"two")
    write(folder, events.files(), events.end("KILLED"))
    assert Sender(folder).send()
    (run,) = runs(folder)
    store: Any = client(folder)
    names = [file.path for file in store.list_artifacts(run.info.run_id, "run")]
    assert names == ["run/config.yaml", "run/history.parquet"]
    found = Path(store.download_artifacts(run.info.run_id, "run/history.parquet"))
    assert found.read_bytes() == b"two"
