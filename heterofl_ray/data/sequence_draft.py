"""Sentences and tagged words as a data set: rows of token numbers, all of one length.

Columns: ``token`` (a row each), ``first`` (tokens up to the second text of a pair), ``length``
(tokens before padding), ``label`` (a class, by which examples are dealt), and perhaps ``number``
(a value each) or ``tag`` (a row of classes; `IGNORED` where none is asked for).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heterofl_ray.data.info import DataInfo
from heterofl_ray.data.store import Columns, Draft
from heterofl_ray.data.tokenizing import Frame, Tokenizer

IGNORED = -100
"""The tag of what is no word's first token; torch's losses leave it out."""
LENGTH = 128
"""Tokens of the longest sequence, unless the user says another number."""


@dataclass
class Rows:
    """Sequences of one split as they come in."""

    frame: Frame
    most: int
    tokens: list[list[int]] = field(default_factory=list)
    first: list[int] = field(default_factory=list)

    def add(self, first: list[int], second: list[int] | None) -> None:
        frame = self.frame
        around = (frame.start, frame.between if second is not None else (), frame.end)
        room = self.most - sum(map(len, around))
        first, second = _shortened(first, second or [], room)
        opening = [*frame.start, *first, *around[1]]
        self.tokens.append([*opening, *second, *frame.end])
        self.first.append(len(opening) if around[1] else len(self.tokens[-1]))

    @property
    def longest(self) -> int:
        return max(map(len, self.tokens))

    def columns(self, length: int) -> dict[str, NDArray[Any]]:
        return {
            "token": padded(self.tokens, length, self.frame.padding),
            "first": np.array(self.first, dtype=np.int32),
            "length": np.array([len(row) for row in self.tokens], dtype=np.int32),
        }


def sentence_rows(
    texts: Iterator[tuple[str, str | None]] | Sequence[tuple[str, str | None]],
    tokenizer: Tokenizer,
    most: int,
) -> Rows:
    """Texts, or pairs of texts."""
    rows = Rows(tokenizer.frame, most)
    for first, second in texts:
        rows.add(tokenizer.encode(first), None if second is None else tokenizer.encode(second))
    return rows


def tagged_rows(
    sentences: Sequence[tuple[Sequence[str], Sequence[int]]], tokenizer: Tokenizer, most: int
) -> tuple[Rows, list[list[int]]]:
    """Words with a tag each; the tags of every token, where a word's first one has the word's."""
    rows, tags = Rows(tokenizer.frame, most), []
    before, after = len(tokenizer.frame.start), len(tokenizer.frame.end)
    for words, numbers in sentences:
        tokens: list[int] = []
        row = [IGNORED] * before
        for word, number in zip(words, numbers, strict=True):
            pieces = tokenizer.encode_word(word)
            tokens += pieces
            row += [number] + [IGNORED] * (len(pieces) - 1)
        rows.add(tokens, None)
        tags.append(row[: most - after])
    return rows, tags


def padded(rows: Sequence[Sequence[int]], length: int, filler: int) -> NDArray[np.int32]:
    table = np.full((len(rows), length), filler, dtype=np.int32)
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
    return table


def sequence_draft(
    name: str,
    splits: dict[str, Columns],
    tokenizer: Tokenizer,
    *,
    target: str,
    metric: str,
    classes: tuple[str, ...],
    origin: str,
    clients: int = 0,
) -> Draft:
    info = DataInfo(
        name=name,
        kind="sequences",
        target=target,
        metric=metric,
        train=len(splits["train"]["length"]),
        test=len(splits["test"]["length"]),
        shape=(splits["train"]["token"].shape[1],),
        dtype="int32",
        classes=classes,
        vocabulary=len(tokenizer.vocabulary),
        clients=clients,
        origin=origin,
    )
    return Draft(info, splits, list(tokenizer.vocabulary))


def _shortened(first: list[int], second: list[int], room: int) -> tuple[list[int], list[int]]:
    """As much of both as there is room for: the longer one gives first."""
    if len(first) + len(second) <= room:
        return first, second
    half = room // 2
    if len(second) <= half:
        return first[: room - len(second)], second
    if len(first) <= room - half:
        return first, second[: room - len(first)]
    return first[: room - half], second[:half]
