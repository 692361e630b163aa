"""The short form of the fuzzers: the same few hundred inputs for each target, every time."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from .checkpoints import Files
from .judging import yard
from .targets import finished_run, targets

FEW = {"config": 300, "assignments": 200, "checkpoint": 300, "result": 80, "sweep": 60}
NAMES = list(targets({"result.json": b"{}"}))


@pytest.fixture(scope="session")
def valid_run(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return finished_run(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize("name", NAMES)
def test_whatever_is_given_is_read_or_refused_in_a_line(
    name: str, valid_run: Files, tmp_path: Path
) -> None:
    target = targets(valid_run)[name]
    with yard(tmp_path / "yard") as place:

        @settings(
            max_examples=FEW.get(name, 100),
            derandomize=True,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(target.inputs)
        def every_input(drawn: object) -> None:
            target.read(place, drawn)

        every_input()
    assert place.tally.inputs == place.tally.accepted + place.tally.refused
    assert place.tally.refused
