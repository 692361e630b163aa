"""Ours beside the paper's: means, spreads, differences, and how they are written."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from heterofl_ray import presets
from heterofl_ray.reporting.runs import Run
from heterofl_ray.reproducing import pages, pictures
from heterofl_ray.reproducing.catalog import exhibit
from heterofl_ray.reproducing.exhibits import Cell
from heterofl_ray.reproducing.outcome import Answer, Answered, Outcome


def made(cell: Cell, score: float, seed: int = 0, rounds: int = 20) -> Run:
    """A run as a report reads it, stopped and resumed once, with scores of our own making."""
    config = presets.load(cell.preset).override([*cell.settings, f"seed={seed}"])
    columns = {
        "round": [10, rounds],
        "global_accuracy": [score - 5, score],
        "local_accuracy": [score - 4, score + 1],
        "seconds": [60.0, 30.0],
    }
    scores = {"global": {"accuracy": score}, "local": {"accuracy": score + 1}}
    summary = {**scores, "seconds": 30.0, "model_sha256": f"{seed}" * 4}
    return Run(Path(f"/runs/{cell.column}-{score}-{seed}"), config, columns, summary, None)


def outcome(name: str, rows: str, columns: str | None = None, seeds: int = 2) -> Outcome:
    chosen = exhibit(name).choose(rows, columns)
    answered = [
        Answered(
            row,
            [
                Answer(cell, [made(cell, 90.0 + place + seed, seed) for seed in range(seeds)])
                for cell in row.cells
            ],
        )
        for place, row in enumerate(chosen.rows)
    ]
    return Outcome(chosen, answered, {"c-e": "would take 99 minutes more"})


def test_means_spreads_and_differences_by_hand() -> None:
    found = outcome("table7", "d-e,e", "iid")
    first, second = found.answers
    assert first.measured is not None
    assert first.measured.mean == 90.5
    assert first.measured.spread == pytest.approx(0.5**0.5)
    assert first.difference == pytest.approx(90.5 - 99.19)
    assert second.difference == pytest.approx(91.5 - 98.66)


def test_a_run_with_two_values_counts_once_in_the_time() -> None:
    found = outcome("table7", "e", "local,global", seeds=1)
    local, global_ = found.answers
    row = Answered(found.rows[0].row, [local, Answer(global_.cell, local.runs)])
    assert row.seconds == 90.0
    assert [answer.measured.values for answer in row.answers if answer.measured] == [[91.0], [90.0]]


def test_what_was_not_run_is_empty() -> None:
    cell = exhibit("table7").rows[0].cells[0]
    answer = Answer(cell, [])
    assert (answer.measured, answer.difference, answer.rounds) == (None, None, None)
    row = Answered(exhibit("table7").rows[0], [answer])
    assert (row.done, row.costs(), row.seconds) == (False, None, 0)


def test_tables_are_written_for_people_and_programs(tmp_path: Path) -> None:
    found = outcome("table4", "e:sbn,e:gn")
    page = pages.write(found, [pictures.draw(found)], tmp_path)
    text = page.read_text()
    assert text.startswith("# Table 4: norms and Scaler, IID\n")
    assert "mean ± standard deviation over 2 seeds" in text
    assert "| 98.7 | 91.50 ± 0.71 | -7.20 |" in text
    assert "heterofl-ray run mnist-dynamic --set mix=e --set network.norm=gn\n" in text
    assert "- c-e: would take 99 minutes more" in text
    lines = list(csv.reader((tmp_path / "table.csv").open()))
    assert lines[0][:3] == ["mix", "norm", "scaler"]
    assert len(lines) == 3
    assert {len(line) for line in lines} == {len(lines[0])}
    values = json.loads((tmp_path / "outcome.json").read_text())
    (gn, _) = values["rows"]
    assert gn["cells"][0]["values"] == [90.0, 91.0]
    assert gn["cells"][0]["model_sha256"] == ["0000", "1111"]
    assert (tmp_path / "table4.png").stat().st_size > 1000
    assert "<svg" in (tmp_path / "table4.svg").read_text()


def test_notes_are_of_the_rows_that_are_shown() -> None:
    assert outcome("table7", "e", "iid").notes == []
    (note,) = outcome("table7", "e,standalone,lg-fedavg", "iid").notes
    assert "Liang" in note


def test_one_seed_has_no_spread() -> None:
    found = outcome("table7", "e", "iid", seeds=1)
    assert pages.table(found).rows[0][5:8] == ["98.66", "90.00", "-8.66"]


@pytest.mark.parametrize(("name", "rows"), [("figure9", "a-e,b-e"), ("table5", "e")])
def test_every_kind_of_picture_is_drawn(name: str, rows: str, tmp_path: Path) -> None:
    plot = pictures.draw(outcome(name, rows))
    plot.save(tmp_path, ["png"])
    assert (tmp_path / f"{name}.png").stat().st_size > 1000
