"""The job that compares methods: its smoke test, its help, its mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from heterofl_ray.jobs import run_comparison
from tests.jobs.files import FAST, TINY, job_file


def call(*words: str) -> int:
    job = job_file("compare_methods")
    return run_comparison("methods-digits", job.SMOKE, job.__doc__, words)


def test_the_smoke_test_runs(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["--methods", "random,fedavg-large", "--seeds", "1"]
    assert call("--smoke", *chosen, *TINY, *FAST) == 0
    output = capsys.readouterr()
    told = json.loads(output.out)
    assert output.err == ""
    assert [row["method"] for row in told["methods"]] == ["random", "alllarge"]
    assert [row["global"]["spread"] for row in told["methods"]] == [None, None]
    assert Path(told["comparison_dir"]).parent == Path.cwd() / "runs"
    assert Path(told["report"]).is_file()


def test_its_help_names_what_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        call("--help")
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    for option in ("--smoke", "--seeds", "--methods", "--match", "--preset", "--json"):
        assert option in shown


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--smoke", "--methods", "fedavgg"], "did you mean 'fedavg'?"),
        (["--smoke", "--seeds", "-1"], "--seeds=-1 is not valid"),
        (["--preset", "mnist-dynamic"], "mnist is not there yet"),
    ],
)
def test_mistakes_are_one_line(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*words, "--quiet") == 2
    output = capsys.readouterr()
    assert (output.out, output.err.count("\n")) == ("", 1)
    assert says in output.err
