"""``heterofl-ray data partition``: figures, picture, mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from heterofl_ray.cli import main
from heterofl_ray.data.partitions.partition import Partition
from heterofl_ray.data.partitions.picture import draw
from heterofl_ray.data.partitions.statistics import Counts

PNG = b"\x89PNG\r\n\x1a\n"


def call(*arguments: str) -> int:
    return main(["data", "partition", *arguments])


def test_json_holds_the_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("digits", "--partition", "classes:2", "--clients", "20", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert list(result) == [
        *("name", "partition", "clients", "train", "test", "classes_per_client"),
        *("skew", "picture"),
    ]
    assert result["train"]["examples"] == 1438
    assert result["test"]["examples"] == 359
    assert result["classes_per_client"]["max"] == 2
    assert result["train"]["min"] <= 72 <= result["train"]["max"]
    assert 0.75 < result["skew"] < 0.9
    assert result["picture"] is None
    assert not list(Path().iterdir())


def test_iid_is_hardly_skewed_and_shown_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("digits", "--clients", "10") == 0
    shown = capsys.readouterr().out
    assert "digits, iid, 10 clients" in shown
    assert "training examples" in shown
    assert "label skew 0.0" in shown


@pytest.mark.parametrize(
    ("given", "path"), [((), "partition-digits.png"), (("mine.png",), "mine.png")]
)
def test_picture_is_drawn_where_it_is_wanted(
    given: tuple[str, ...], path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("digits", "--partition", "power-law:1.5", "--json", "--picture", *given) == 0
    assert json.loads(capsys.readouterr().out)["picture"] == path
    assert Path(path).read_bytes().startswith(PNG)


def test_picture_of_many_clients_shows_the_first_hundred() -> None:
    labels = np.arange(600) % 3
    many = Partition.of_sizes(np.full(300, 2), np.arange(600))
    draw(Path("many.png"), "made", Counts.of(many, labels, 3), many.sizes(), ("x", "y", "z"))
    assert Path("many.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["digitz"], "did you mean 'digits'?"),
        (["digits", "--partition", "klasses:2"], "partition='klasses:2'"),
        (["digits", "--partition", "power-law"], "such as 'power-law:1.5'"),
        (["digits", "--partition", "natural"], "partition='natural'"),
        (["digits", "--clients", "many"], "clients='many'"),
        (["digits", "--clients", "2000"], "clients=2000"),
        (["digits", "--seed", "-1"], "seed=-1"),
        (["digits", "--picture", "mine.jpg"], "must end in .png"),
        (["digits", "--picture", "nowhere/mine.png"], "cannot be written"),
        (["pydocs"], "data='pydocs'"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*arguments) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
