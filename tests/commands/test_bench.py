"""The bench command: mistakes, what it prints, when it fails."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import record as records
from benchmarks import suite
from benchmarks.measure import Figure
from heterofl_ray.cli import main
from heterofl_ray.commands import bench


@pytest.fixture
def themes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, float]:
    """A suite of one theme that yields what the test says, with results in a folder of its own."""
    values = {"median": 3.0}

    def measure(quick: bool) -> list[Figure]:
        value = values["median"]
        return [Figure(name="speed", about="fast / slow", values=(value,), at_least=2)]

    theme = SimpleNamespace(NAME="made", ABOUT="About it", measure=measure)
    monkeypatch.setattr(suite, "THEMES", {"made": "made"})
    monkeypatch.setattr(suite, "SUITE", ("made",))
    monkeypatch.setattr(suite, "ON_RAY", {})
    monkeypatch.setattr(suite, "import_module", lambda name: theme)
    monkeypatch.setattr(suite, "_let_processes_find_us", lambda: None)
    results = tmp_path / "results"
    monkeypatch.setattr(suite, "read", lambda: records.read(results))
    monkeypatch.setattr(suite, "record", lambda *what: records.record(*what, into=results))
    return values


def test_json_is_one_object_of_ratios(
    themes: dict[str, float], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == {"ratios": {"speed": {"median": 3.0, "low": 3.0, "high": 3.0}}}


def test_a_missed_bound_is_named_and_fails(
    themes: dict[str, float], capsys: pytest.CaptureFixture[str]
) -> None:
    themes["median"] = 1.5
    assert main(["bench", "made"]) == 1
    said = capsys.readouterr()
    assert "bound missed: speed is 1.5, should be at least 2" in said.err
    assert "speed" in said.out


def test_record_then_compare(themes: dict[str, float], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--record"]) == 0
    themes["median"] = 2.8
    assert main(["bench", "--compare"]) == 0
    themes["median"] = 2.2
    assert main(["bench", "--compare"]) == 1
    assert "has become worse: speed: 2.2 (2.2 to 2.2), recorded 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["maed"], "NAME='maed' is not valid: did you mean 'made'?"),
        (["--quick", "--record"], "--record is for full runs"),
        (["--quick", "--compare"], "--compare is for full runs"),
        (["--compare"], "nothing is recorded of this machine"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str],
    message: str,
    themes: dict[str, float],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["bench", *arguments]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_without_a_checkout_it_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    installed = tmp_path / "site-packages" / "heterofl_ray" / "__init__.py"
    monkeypatch.setattr(bench.heterofl_ray, "__file__", str(installed))
    assert main(["bench"]) == 2
    said = capsys.readouterr().err
    assert "bench needs a checkout" in said
    assert said.count("\n") == 1


def test_the_checkout_is_found_from_anywhere(tmp_path: Path) -> None:
    assert (bench.find_checkout() / "benchmarks" / "rounds.py").is_file()


def test_every_theme_of_the_suite_is_there() -> None:
    from importlib import import_module

    for name, module in suite.THEMES.items():
        theme = import_module(module)
        assert name == theme.NAME
        assert theme.ABOUT
        assert callable(theme.measure)


def test_what_is_not_of_the_suite_is_run_when_it_is_named() -> None:
    everything = suite._chosen([])
    assert everything == list(suite.SUITE)
    assert not {"methods", "tracking", "endurance"} & set(everything)
    assert suite._chosen(["endurance"]) == ["endurance"]
    assert suite._chosen(["runtime", "methods", "fedavg"]) == ["fedavg", "methods", "runtime"]
