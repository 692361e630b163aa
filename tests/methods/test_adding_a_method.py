"""The page on adding a method: its example runs as it is printed, and does what the page says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from heterofl_ray import run
from heterofl_ray.errors import ConfigError
from heterofl_ray.methods.registry import METHODS
from heterofl_ray.simulation import Simulation
from heterofl_ray.submodels.selectors import Cut

PAGE = Path(__file__).parents[2] / "docs" / "adding_a_method.md"


@pytest.fixture
def example() -> Iterator[str]:
    (block,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    with mock.patch.dict(METHODS):
        yield block


def test_the_example_does_what_the_page_says(
    example: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {}
    exec(compile(example, str(PAGE), "exec"), names)  # noqa: S102 our own page
    config, grown = names["config"], names["grown"]
    assert len(example.splitlines()) < 100

    # everybody trains the smallest level at first and its own level later
    rounds, cohort = config.rounds, config.cohort_size
    weak, strong = (grown.history[f"clients_{level}"].to_pylist() for level in "ea")
    first, later = slice(0, rounds // 2), slice(rounds // 2, rounds)
    assert weak[first] == [cohort] * (rounds // 2)
    assert strong[first] == [0] * (rounds // 2)
    assert all(0 < count < cohort for count in weak[later])
    assert [a + e for a, e in zip(weak, strong, strict=True)] == [cohort] * rounds
    assert str(weak) in capsys.readouterr().out

    # clients of narrow levels take longer steps
    simulation = names["Growing"].__new__(names["Growing"])
    simulation.config = grown.config
    large, small = grown.config.levels.levels
    steps = [simulation.job(1, Cut(level), (0,)).lr for level in (large, small)]
    assert steps == pytest.approx([config.lr, config.lr * 2])  # a sixteenth of the width

    # it needs two levels, and what it does not answer is HeteroFL
    with pytest.raises(ConfigError, match="mix='a' is not valid: method=growing needs two levels"):
        run(config.override(["method=growing", "mix=a"]))
    answered = {name for name in vars(names["Growing"]) if not name.startswith("__")}
    assert answered == {"settle", "cohort", "job"}
    assert answered <= set(vars(Simulation))
