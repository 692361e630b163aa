"""The judge itself: what a reader may not do is seen."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from heterofl_ray.errors import DataError

from .judging import Yard, yard


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Yard]:
    (tmp_path / "neighbour.txt").write_text("untouched")
    with yard(tmp_path / "yard") as made:
        made.given.mkdir()
        yield made


def overwrite(place: Yard) -> None:
    (place.place / "bystander.txt").write_text("UNTOUCHED")  # as many bytes


def make_temporary(place: Yard) -> None:
    (place.place / "temporary" / "left").touch()


def make_beside(place: Yard) -> None:
    (place.place.parent / "beside.txt").touch()


def overwrite_beside(place: Yard) -> None:
    (place.place.parent / "neighbour.txt").write_text("UNTOUCHED")


def remove_beside(place: Yard) -> None:
    (place.place.parent / "neighbour.txt").unlink()


def loosen(place: Yard) -> None:
    (place.place / "working").chmod(0o777)


FORBIDDEN = [overwrite, make_temporary, make_beside, overwrite_beside, remove_beside, loosen]


@pytest.mark.parametrize("act", FORBIDDEN, ids=lambda act: act.__name__)
def test_what_is_done_outside_the_target_is_seen(act: Callable[[Yard], None], place: Yard) -> None:
    with pytest.raises(AssertionError, match="files outside the target"):
        place.judge("kind", lambda: act(place))


def test_what_is_done_in_the_target_is_not(place: Yard) -> None:
    def write() -> None:
        place.target.mkdir()
        (place.target / "x").write_text("x")
        os.utime(place.given)

    place.judge("kind", write)
    assert place.tally.accepted == 1


def test_a_refusal_is_one_and_any_other_error_is_a_finding(place: Yard) -> None:
    def refuse() -> None:
        raise DataError("no")

    def stumble() -> None:
        raise KeyError("no")

    place.judge("kind", refuse)
    assert place.tally.refused == 1
    with pytest.raises(KeyError):
        place.judge("kind", stumble)
