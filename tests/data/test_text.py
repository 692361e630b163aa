"""Text as rows and windows, with positions hidden, worked by hand on a stream of 23 tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.store import Dataset, write_dataset
from heterofl_ray.data.text import TextClients
from heterofl_ray.data.words import encode
from heterofl_ray.errors import ConfigError
from heterofl_ray.randomness import Streams

CPU = torch.device("cpu")
WORDS = [f"w{number}" for number in range(1, 24)]  # token n is word n


@pytest.fixture
def stream(tmp_path: Path) -> Dataset:
    return write_dataset(tmp_path, encode("made", WORDS, WORDS[:11], origin="test"))


def text(data: Dataset, *changes: str) -> TextClients:
    config = ExperimentConfig(data="made", model="transformer", clients=2).override(
        ["text.rows=4", "text.window=2", *changes]
    )
    return TextClients(data, config, Streams(config.seed))


def windows(data: TextClients, client: int) -> list[tuple[list[list[int]], list[list[int]]]]:
    random = torch.Generator().manual_seed(0)
    batches = data.training_batches(client, 10, random, CPU)
    return [(inputs.tolist(), targets.tolist()) for inputs, targets in batches]


def test_the_stream_is_cut_into_equal_rows_that_are_dealt(stream: Dataset) -> None:
    data = text(stream)
    assert data.rows.tolist() == [
        [1, 2, 3, 4, 5],
        [6, 7, 8, 9, 10],
        [11, 12, 13, 14, 15],
        [16, 17, 18, 19, 20],  # 21 to 23 fill no row
    ]
    assert sorted(np.concatenate([data.train[0], data.train[1]]).tolist()) == [0, 1, 2, 3]
    for client in range(2):
        rows = data.rows[torch.from_numpy(data.train[client].copy())]
        assert data.labels(client).tolist() == sorted(rows.flatten().tolist())
        assert data.examples(client) == 10


def test_windows_run_over_all_rows_of_a_client_the_last_one_short(stream: Dataset) -> None:
    data = text(stream, "text.mask_rate=0")
    first, second = (5 * int(row) for row in data.train[0])
    assert windows(data, 0) == [
        (tokens, tokens)
        for tokens in (
            [[first + 1, first + 2], [second + 1, second + 2]],
            [[first + 3, first + 4], [second + 3, second + 4]],
            [[first + 5], [second + 5]],
        )
    ]


def test_all_is_hidden_at_mask_rate_one_behind_the_last_word(stream: Dataset) -> None:
    data = text(stream, "text.mask_rate=1")
    assert data.outputs == 24  # 23 words and the unknown one, so the mask is token 24
    for inputs, targets in windows(data, 0):
        assert {token for row in inputs for token in row} == {24}
        assert 24 not in {token for row in targets for token in row}


def test_hidden_positions_follow_the_draws(stream: Dataset) -> None:
    data = text(stream, "text.mask_rate=0.4")
    random = torch.Generator().manual_seed(0)
    for inputs, targets in windows(data, 0):
        hidden = torch.rand((2, len(targets[0])), generator=random) < 0.4
        assert inputs == torch.tensor(targets).masked_fill(hidden, 24).tolist()


def test_test_windows_hold_every_token_once_and_hide_the_same_ones_each_time(
    stream: Dataset,
) -> None:
    data = text(stream, "text.mask_rate=0.5")
    whole = list(data.test_batches(0, 11, 4, CPU))
    assert [targets.tolist() for _, targets in whole] == [
        [[1, 2], [3, 4]],
        [[5, 6], [7, 8]],
        [[9, 10]],
        [[11]],  # the last, short window
    ]
    again = list(data.test_batches(0, 11, 4, CPU))
    parts = [*data.test_batches(0, 6, 100, CPU), *data.test_batches(6, 11, 100, CPU)]
    hidden = torch.cat([inputs.flatten() for inputs, _ in whole])
    for other in (again, parts):
        assert torch.equal(torch.cat([inputs.flatten() for inputs, _ in other]), hidden)
    assert 0 < int((hidden == 24).sum()) < 11


def test_rows_may_be_dealt_unequally(stream: Dataset) -> None:
    data = text(stream, "text.rows=7", "partition=power-law:1")
    assert sorted(len(data.train[client]) for client in range(2)) == [2, 5]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("partition=classes:2", "text is dealt in rows: iid or power-law"),
        ("partition=natural", "text is dealt in rows"),
        ("text.rows=24", r"text\.rows=24 .* 23 training tokens"),
        ("clients=5", r"clients=5 .* 4 rows \(text\.rows\)"),
        ("feature_skew.noise=1", r"feature_skew\.noise=1.0 .* must be 0"),
    ],
)
def test_what_text_cannot_do_is_refused(change: str, message: str, stream: Dataset) -> None:
    with pytest.raises(ConfigError, match=message):
        text(stream, change)
