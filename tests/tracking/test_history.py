"""A row per round: every column by hand, and the file of a run that was cut off."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from heterofl_ray.clients.jobs import ClientReport
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import Interrupted
from heterofl_ray.evaluation import Scores
from heterofl_ray.progress import Silent
from heterofl_ray.runner import resume, run
from heterofl_ray.simulation import RoundRecord
from heterofl_ray.tracking.history import History, HistoryFile, Row

REPORTS = [
    ClientReport(0, "a", 1.0, 30, 262144, 2.0),
    ClientReport(1, "a", 2.0, 10, 262144, 1.0),
    ClientReport(2, "c", 4.0, 20, 131072, 0.5),
    ClientReport(3, "c", 9.0, 20, 131072, 0.25, rejected="not finite"),
]


def record(scores: dict[str, Scores] | None = None) -> RoundRecord:
    return RoundRecord(7, 0.1, 4.0, REPORTS, None, scores or {}, seconds_train=2.5)


def test_every_column_by_hand() -> None:
    config = ExperimentConfig(mix="a-c")
    history = History(config, lambda report: 1e9 * report.examples)
    tested = Scores({"accuracy": 50.0, "loss": 1.5}, {"accuracy": 75.0, "loss": 0.5}, None)
    row = history.add(record({"a": tested}), workers=2, other=0.125)
    assert row == {
        "round": 7,
        "seconds": 4.125,
        "seconds_train": 2.5,
        "seconds_test": 1.5,
        "seconds_other": 0.125,
        "lr": 0.1,
        "loss": (1.0 * 30 + 2.0 * 10 + 4.0 * 20) / 60,
        "megabytes_down": 3.0,
        "megabytes_up": 3.0,
        "client_gflops": 80.0,
        "rejected": 1,
        "worker_utilisation": 3.75 / (2.5 * 2),
        "clients_a": 2,
        "loss_a": 1.5,
        "seconds_a": 3.0,
        "megabytes_a": 2.0,
        "clients_c": 1,
        "loss_c": 4.0,
        "seconds_c": 0.75,
        "megabytes_c": 1.0,
        "global_accuracy": 50.0,
        "global_loss": 1.5,
        "local_accuracy": 75.0,
        "local_loss": 0.5,
        "level_a_accuracy": 50.0,
        "level_a_loss": 1.5,
    }


def test_what_is_not_known_is_missing() -> None:
    history = History(ExperimentConfig(mix="a-b-c"))
    row = history.add(record())
    assert row["seconds_test"] == 0
    assert row["seconds_other"] == 1.5  # it took longer than training, and not by a test
    assert row["worker_utilisation"] is None
    assert row["client_gflops"] is None
    assert row["clients_b"] == 0
    assert row["loss_b"] is None
    assert not any(name.startswith(("global", "local", "level")) for name in row)


def test_the_file_costs_no_more_than_its_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("heterofl_ray.tracking.history.time.perf_counter", lambda: now)
    file, history = HistoryFile(tmp_path), History(ExperimentConfig(mix="a-c"))
    written: list[int] = []

    def slow(table: object, path: Path) -> None:
        nonlocal now
        now += 0.02
        written.append(len(history.rows))
        path.write_text("")

    monkeypatch.setattr("heterofl_ray.tracking.history.pq.write_table", slow)
    for _ in range(10):
        history.add(record())
        file.write_if_due(history)
        now += 0.5  # a write of 0.02 s may come every 2 s
    assert written == [1, 5, 9]
    file.write(history)
    assert written == [1, 5, 9, 10]


class StopsAt(Silent):
    """Ends the run as a signal would, after a round."""

    def __init__(self, round_number: int, error: BaseException) -> None:
        self.round_number = round_number
        self.error = error

    def update(self, record: RoundRecord, row: Row) -> None:
        if record.round_number == self.round_number:
            raise self.error


@pytest.mark.parametrize("error", [Interrupted(130), RuntimeError("broken")], ids=["stop", "fail"])
def test_an_unfinished_run_has_its_history(
    tiny: ExperimentConfig, tmp_path: Path, error: BaseException
) -> None:
    config = tiny.override(["rounds=4", "checkpoint.every=2", f"tracking.root={tmp_path}/runs"])
    with pytest.raises(type(error)):
        run(config, progress=StopsAt(3, error))
    (folder,) = (tmp_path / "runs").iterdir()
    assert not (folder / "result.json").exists()
    cut = pq.read_table(folder / "history.parquet")
    assert cut["round"].to_pylist() == [1, 2, 3]
    whole = resume(folder).history
    assert whole["round"].to_pylist() == [1, 2, 3, 4]
    assert whole["loss"].to_pylist()[:3] == cut["loss"].to_pylist()
    assert whole.column_names == pq.read_table(folder / "history.parquet").column_names


def test_the_rounds_of_a_run_add_up(tiny: ExperimentConfig, tmp_path: Path) -> None:
    table = run(tiny.override(["rounds=3", f"tracking.root={tmp_path}/runs"])).history
    for row in table.to_pylist():
        parts = row["seconds_train"] + row["seconds_test"] + row["seconds_other"]
        assert row["seconds"] == pytest.approx(parts, abs=1e-12)
        assert row["seconds_test"] > 0
        assert 0 < row["worker_utilisation"] <= 1
        assert row["client_gflops"] > 0
        trained = sum(row[f"seconds_{level}"] for level in "ac")
        assert row["worker_utilisation"] == pytest.approx(trained / row["seconds_train"])
