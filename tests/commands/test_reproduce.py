"""``heterofl-ray reproduce``, on small data in the place of the papers'."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from heterofl_ray.cli import main

SMALL = [
    *("--set", "data=digits", "--set", "network.hidden=[16,16]", "--set", "clients=10"),
    *("--set", "local_epochs=1", "--quiet", "--out", "out"),
]


def reproduce(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["reproduce", *words, *SMALL, "--json"]) == 0
    values: dict[str, Any] = json.loads(capsys.readouterr().out)
    return values


def test_a_table_is_made_once_and_shared(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = reproduce(capsys, "table7", "--rows", "a-e,e", "--rounds", "2", "--seeds", "2")
    assert [row["name"] for row in found["rows"]] == ["a-e", "e"]
    cells = {cell["column"]: cell for cell in found["rows"][0]["cells"]}
    assert len(cells["iid"]["values"]) == 2
    assert cells["local"]["runs"] == cells["global"]["runs"]
    assert cells["iid"]["rounds"] == 2
    assert cells["iid"]["paper"] is None  # digits are not MNIST
    assert len(list(Path("out/runs").iterdir())) == 2 * 2 * 2
    text = Path("out/table7/table.md").read_text()
    assert "Not on the paper's data." in text
    assert 0.5 < found["rows"][0]["costs"]["ratio"] < 0.51

    def never(*_: object, **__: object) -> None:
        raise AssertionError("runs that are there were repeated")

    monkeypatch.setattr("heterofl_ray.commands.once.train", never)
    again = reproduce(capsys, "table1", "--rows", "e", "--rounds", "2", "--columns", "iid")
    assert again["rows"][0]["cells"][0]["values"] == found["rows"][1]["cells"][0]["values"][:1]


def test_a_figure_is_drawn_from_its_runs(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["figure3", "--rows", "a-e:10,a-e:100,b-e:50", "--rounds", "1"]
    found = reproduce(capsys, *words)
    assert [row["name"] for row in found["rows"]] == ["a-e:10", "a-e:100", "b-e:50"]
    assert Path("out/figure3/figure3.png").is_file()
    assert main(["reproduce", *words, *SMALL]) == 0
    shown = capsys.readouterr().out
    assert "Figure 3" in shown
    assert "table and picture in" in shown


def test_a_dry_run_says_what_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["table7", "--rows", "e", "--rounds", "1", "--columns", "iid"]
    assert reproduce(capsys, *words, "--dry-run") == {
        "finished": [], "begun": [], "to run": ["e iid"]
    }  # fmt: skip
    reproduce(capsys, *words)
    assert reproduce(capsys, *words, "--dry-run")["finished"] == ["e iid"]


def test_a_budget_leaves_out_what_does_not_fit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine on which a round of the cheapest run takes ten seconds: 20 rounds, 200 s."""
    monkeypatch.setattr("heterofl_ray.commands.reproduce._seconds_of_a_round", lambda *_: 10.0)
    words = ["table7", "--rows", "a,e", "--columns", "iid", "--rounds", "20"]
    found = reproduce(capsys, *words, "--budget", "3.5")
    cells = {row["name"]: row["cells"][0] for row in found["rows"]}
    assert cells["e"]["rounds"] == 20
    assert cells["a"]["rounds"] is None
    assert "would take" in found["left_out"]["a iid"]


def test_the_machines_speed_is_tried_out(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["table7", "--rows", "e", "--columns", "iid", "--rounds", "2", "--budget", "30"]
    found = reproduce(capsys, *words)
    assert found["rows"][0]["cells"][0]["rounds"] == 2
    assert found["left_out"] == {}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["tabel7"], "EXHIBIT='tabel7' is not valid: did you mean 'table7'?"),
        (["table7", "--rows", "q"], "--rows='q' is not valid"),
        (["table7", "--columns", "q"], "--columns='q' is not valid"),
        (["table7", "--budget", "-1"], "--budget=-1.0 is not valid: must be above 0"),
        (["table7", "--budget", "nan"], "--budget=nan is not valid"),
        (["table7", "--seeds", "0"], "--seeds=0 is not valid"),
        (["table7", "--rounds", "0"], "--rounds=0 is not valid"),
        (["table7", "--full"], "--full: table7 has the paper's scale as it is"),
        (["table7", "--set", "rouds=1"], "unknown setting 'rouds'"),
        (["table3"], "table3: wikitext2 is not there yet"),
    ],
)
def test_mistakes_are_one_line(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", *words]) == 2
    output = capsys.readouterr()
    assert says in output.err
    assert len(output.err.strip().splitlines()) == 1
    assert output.out == ""
