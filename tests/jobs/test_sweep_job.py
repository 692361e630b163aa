"""The job that is a sweep: which one, its smoke test, its mistakes."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from heterofl_ray.jobs import run_sweep
from heterofl_ray.jobs.sweeping import _plan
from tests.jobs.files import job_file


def arguments(**given: object) -> argparse.Namespace:
    return argparse.Namespace(**{"smoke": False, "sweep": "levels-mnist", **given})


def test_without_options_it_is_the_named_sweep() -> None:
    plan = _plan(job_file("sweep_levels").SMOKE, arguments(), [])
    assert (plan.base.data, plan.settings.trials) == ("mnist", 60)
    assert plan.base.tracking.root == str(Path.cwd() / "runs")


def test_the_smoke_test_needs_no_download_and_what_is_set_wins() -> None:
    plan = _plan(job_file("sweep_levels").SMOKE, arguments(smoke=True), ["sweep.trials=2"])
    assert (plan.base.data, plan.base.rounds, plan.settings.trials) == ("digits", 2, 2)
    plan.check()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "sweep.samplr=tpe"], "did you mean 'sweep.sampler'?"),
        (["--trials", "-1"], "sweep.trials=-1"),
        (["--resume", "nowhere"], "is not the folder of a sweep"),
        ([], "mnist is not there yet"),
    ],
    ids=str,
)
def test_mistakes_are_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_sweep("levels-mnist", job_file("sweep_levels").SMOKE, None, words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
