"""Results on disk."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from benchmarks import record as records
from benchmarks.measure import Figure, shown
from benchmarks.record import read, record


def figures(value: float) -> list[Figure]:
    return [
        Figure(name="speed", about="fast / slow", values=(value, 2.0, 4.0), at_least=2.5),
        Figure(name="size", about="large / small", values=(1.0,)),
    ]


def test_a_machine_has_one_file_with_its_newest_figures_of_each_theme(tmp_path: Path) -> None:
    record("one", "About one", figures(3.0), tmp_path)
    record("two", "About two", figures(3.0), tmp_path)
    record("one", "About one", figures(1.0), tmp_path)
    kept = read(tmp_path)
    assert list(kept) == ["one", "two"]
    assert kept["two"]["ratios"]["speed"] == {
        "about": "fast / slow",
        "median": 3.0,
        "low": 2.0,
        "high": 4.0,
        "repeats": [3.0, 2.0, 4.0],
        "bound": "at least 2.5",
        "holds": True,
    }
    assert kept["one"]["ratios"]["speed"]["median"] == 2.0
    assert {"date", "commit", "cpu", "python", "torch"} <= set(kept["one"]["taken"])
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".md"]


def test_the_page_shows_medians_spreads_and_bounds(tmp_path: Path) -> None:
    record("one", "About one", figures(1.0), tmp_path)
    (page,) = tmp_path.glob("*.md")
    text = page.read_text()
    assert "| speed | fast / slow | 2 | 1 to 4 | 3 | at least 2.5 | no |" in text
    assert "| size | large / small | 1 | 1 to 1 | 1 |  |  |" in text


def test_machines_have_files_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record("one", "About one", figures(3.0), tmp_path)
    monkeypatch.setattr(records, "_cpu", lambda: "Other(R) CPU @ 1 GHz")
    assert read(tmp_path) == {}
    record("one", "About one", figures(3.0), tmp_path)
    assert len(list(tmp_path.glob("*.json"))) == 2
    assert records.place(tmp_path).name.startswith("other-cpu-1-ghz-")


def test_a_changed_checkout_is_marked_but_for_what_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> str:
        who = ("-c", "user.name=Nobody", "-c", "user.email=nobody@localhost")
        command = ["git", "-C", str(tmp_path), *who, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    results, code = tmp_path / "benchmarks" / "results", tmp_path / "code.py"
    results.mkdir(parents=True)
    monkeypatch.setattr(records, "RESULTS", results)
    assert records.surroundings()["commit"] == "unknown"
    for path in (results / "machine.json", code):
        path.write_text("one")
    git("init")
    git("add", ".")
    git("commit", "-m", "one")
    commit = git("rev-parse", "--short", "HEAD")
    (results / "machine.json").write_text("two")
    assert records.surroundings()["commit"] == commit
    code.write_text("two")
    assert records.surroundings()["commit"] == f"{commit}-dirty"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((1350.0, "1350"), (1234567.0, "1234567"), (1.0, "1"), (38.0, "38"), (1350.4, "1350")),
        *((30.62, "30.6"), (0.00683, "0.00683"), (0.0, "0"), (99.96, "100")),
    ],
)
def test_whole_numbers_stay_whole(value: float, text: str) -> None:
    assert shown(value) == text


def test_what_the_checkout_keeps_can_be_read() -> None:
    for path in records.RESULTS.glob("*.json"):
        kept = json.loads(path.read_text())
        for part in kept.values():
            assert {"about", "taken", "ratios"} == set(part)
        assert path.with_suffix(".md").read_text() == records._page(kept)
