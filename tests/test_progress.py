from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from heterofl_ray import run
from heterofl_ray.clients.jobs import ClientReport
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.evaluation import Scores
from heterofl_ray.progress import Shown
from heterofl_ray.simulation import RoundRecord

CONFIG = ExperimentConfig(mix="a-c", rounds=4)


def record(number: int, accuracy: float | None, rejected: str | None = None) -> RoundRecord:
    report = ClientReport(7, "c", 0.5, 10, 1024**2 // 4, 1.0, rejected)
    scores = {} if accuracy is None else {"a": Scores({"accuracy": accuracy}, {}, None)}
    return RoundRecord(number, 0.1, 1.0, [report], None, scores=scores)


def lines(terminal: bool, *updates: tuple[RoundRecord, dict[str, float | int | None]]) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=200, highlight=False)
    with Shown(console) as shown:
        shown.start(CONFIG, Path("runs/x"), done=0, moved=0.0)
        for one, row in updates:
            shown.update(one, row)
    return file.getvalue()


def test_a_line_for_each_test_with_best_levels_workers_and_megabytes() -> None:
    row = {"loss_a": None, "loss_c": 0.5, "worker_utilisation": 0.875}
    text = lines(
        False,
        (record(1, 90.0), row),
        (record(2, None), row),
        (record(3, 80.0), {**row, "loss_a": 1}),
    )
    first, second, third = text.splitlines()
    assert first.startswith("heterofl on digits: conv, mix a-c")
    assert second.startswith(
        "round 1/4  loss 0.5000  accuracy 90.00  2.0 MB moved  by level: c 0.500  workers 88% busy"
    )
    assert "accuracy 80.00 (best 90.00)  6.0 MB moved  by level: a 1.000  c 0.500" in third
    assert third.endswith("s left")


def test_a_rejected_update_is_named() -> None:
    text = lines(False, (record(1, None, "w is not finite"), {}))
    assert "round 1: update of client 7 at level c left out: w is not finite" in text


def test_live_in_a_terminal() -> None:
    text = lines(True, (record(1, 90.0), {"loss_c": 0.5, "worker_utilisation": None}))
    assert "1/4" in text
    assert "accuracy 90.00" in text
    assert "by level: c 0.500" in text


def test_a_real_run_shows_its_rounds(
    tiny: ExperimentConfig, data_root: Path, tmp_path: Path
) -> None:
    file = io.StringIO()
    shown = Shown(Console(file=file, width=200, highlight=False))
    run(tiny.override([f"tracking.root={tmp_path}"]), data_dir=data_root, progress=shown)
    assert file.getvalue().count("workers ") == file.getvalue().count("by level: ") == 2
