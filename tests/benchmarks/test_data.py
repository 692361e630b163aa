"""The suite's data: the real shapes, cut down when it should be quick."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import data
from benchmarks.data import TOKENS, WORDS, provide
from heterofl_ray.data.info import DataInfo
from heterofl_ray.data.store import Draft, open_dataset, write_dataset
from heterofl_ray.data.words import token_draft


@pytest.mark.parametrize(
    ("name", "shape", "train", "augment"),
    [("mnist", (1, 28, 28), 6000, False), ("cifar10", (3, 32, 32), 5000, True)],
)
def test_made_up_images_have_the_real_ones_shapes(
    name: str, shape: tuple[int, ...], train: int, augment: bool, tmp_path: Path
) -> None:
    assert provide(name, tmp_path, share=10) == "made up"
    made = open_dataset(tmp_path, name)
    assert made.train.images.shape == (train, *shape)
    assert made.test.images.shape == (1000, *shape)
    assert made.info.augment is augment
    assert made.train.labels.bincount().tolist() == [train // 10] * 10


def test_made_up_text_is_as_long_and_rich_as_the_real_one(tmp_path: Path) -> None:
    assert provide("wikitext2", tmp_path, share=10) == "made up"
    made = open_dataset(tmp_path, "wikitext2")
    assert (len(made.train.tokens), len(made.test.tokens)) == (TOKENS, TOKENS // 10)
    assert made.info.vocabulary == len(made.vocabulary()) == WORDS
    counts = made.train.tokens.long().bincount()
    # Zipf: the tenth word comes a tenth as often as the first
    assert 0.08 < counts[9] / counts[0] < 0.12


def test_real_data_is_used_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    there.mkdir()
    monkeypatch.setattr(data, "data_dir", lambda: here)
    monkeypatch.setattr(data, "TOKENS", 50)
    part = {"image": np.full((3, 1, 28, 28), 7, np.uint8), "label": np.arange(3)}
    info = DataInfo(
        name="mnist", kind="images", train=3, test=3, shape=(1, 28, 28), classes=("x", "y", "z")
    )
    write_dataset(here, Draft(info, {"train": part, "test": part}))
    tokens = np.arange(80, dtype=np.int32)
    words = [str(number) for number in range(80)]
    write_dataset(here, token_draft("wikitext2", tokens, tokens, words, origin=""))

    assert [provide(name, there) for name in ("mnist", "wikitext2")] == ["real", "real"]
    assert open_dataset(there, "mnist").train.images.unique().tolist() == [7]
    text = open_dataset(there, "wikitext2")
    assert text.train.tokens.tolist() == list(range(50))
    assert text.info.vocabulary == 80
