"""The soak in its short form: a few real faults, every round finished, the same bytes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from itertools import islice
from pathlib import Path

import pytest

from benchmarks.soak import Outcome, figures, main
from benchmarks.soak_faults import KINDS, schedule
from benchmarks.soak_parts import differing
from benchmarks.soak_watch import StallWatch, tell_of_everybody
from heterofl_ray.cli import answer

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("nodes")]
ROOT = Path(__file__).parents[2]


def test_runs_under_faults_end_with_the_bytes_of_one_without() -> None:
    command = [sys.executable, "-m", "benchmarks", "soak", "--json", "--minutes", "0.5"]
    done = subprocess.run(
        [*command, "--seed", "4", "--rounds", "20", "--faults", "worker,node,disk"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    assert found["laps"] >= 1
    assert found["equal"] == found["laps"]
    assert found["rounds"] == 20 * found["laps"]
    assert sum(found["faults"].values()) >= 2, "too few faults to show anything"
    assert len(found["log"]) == sum(found["faults"].values())


def test_the_schedule_follows_from_the_seed_and_leaves_no_kind_out() -> None:
    kinds = list(KINDS)
    first, again, other = (list(islice(schedule(seed, kinds), 12)) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert sorted(fault.kind for fault in first[:6]) == sorted(kinds)


def test_a_run_that_differs_or_is_told_wrongly_misses_the_bound() -> None:
    good = Outcome(laps=2, equal=2, exact=2, recovery=[1.0, 3.0])
    assert good.holds
    assert all(figure.holds for figure in figures(good))
    for bad in (Outcome(laps=2, equal=1, exact=2), Outcome(laps=2, equal=2, exact=1), Outcome()):
        assert not bad.holds
        assert not all(figure.holds for figure in figures(bad))


def test_one_long_stall_misses_the_bound_however_short_the_others_are() -> None:
    stalled = Outcome(laps=1, equal=1, exact=1, recovery=[1.0] * 99 + [619.0])
    assert [figure.name for figure in figures(stalled) if not figure.holds] == ["soak-longest"]


def test_a_stall_is_told_while_it_lasts_and_again_when_it_goes_on() -> None:
    told = threading.Semaphore(0)
    idle = [0.0]
    with StallWatch(lambda: idle[0], told.release, seconds=0.2) as watch:
        assert not told.acquire(timeout=0.3)
        for seconds in (0.25, 0.45):
            idle[0] = seconds
            assert told.acquire(timeout=60)
        idle[0] = 0.0
        assert not told.acquire(timeout=0.3)
    assert watch.stalls == 1


def test_what_everybody_does_is_told_without_a_ray_too(capfd: pytest.CaptureFixture[str]) -> None:
    tell_of_everybody()
    told = capfd.readouterr().err
    assert "test_what_everybody_does_is_told_without_a_ray_too" in told
    assert "most recent call first" in told


def test_metrics_are_compared_one_by_one_and_times_with_what_was_told_first() -> None:
    rows = [{"round": n, "loss": n / 2, "seconds": 9.0 + n, "rare": None} for n in (1, 2)]
    told = [{"step": n, "values": {"loss": n / 2, "seconds": 3.0 + n}} for n in (1, 2)]
    stored = {"loss": [(1, 0.5), (2, 1.0)], "seconds": [(1, 4.0), (2, 5.0)], "rare": []}
    assert differing(rows, told, stored) == []
    for name, points in (
        ("loss", [(1, 0.5), (2, 1.0), (2, 1.0)]),
        ("loss", [(1, 0.5)]),
        ("loss", [(1, 0.5), (2, 1.1)]),
        ("seconds", [(1, 4.0), (2, 5.0), (2, 11.0)]),
        ("seconds", [(1, 4.0), (2, 11.0)]),
        ("rare", [(1, 1.0)]),
    ):
        assert differing(rows, told, {**stored, name: points}) == [name]
    assert differing(rows, [*told, told[1]], stored) == ["seconds"], "told twice"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--faults", "worker,nod"], "--faults='nod' is not valid: did you mean 'node'?"),
        (["--minutes", "0"], "--minutes=0.0 is not valid"),
    ],
)
def test_mistakes_are_one_line(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer(lambda: main(words)) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
