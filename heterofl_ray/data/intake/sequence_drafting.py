"""From sentences and tagged words, as readers give them, to a data set ready to be written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from heterofl_ray.data.intake.drafting import numbered
from heterofl_ray.data.intake.readers.contract import (
    Array,
    Options,
    Sentence,
    Sentences,
    Tagged,
    TaggedWords,
)
from heterofl_ray.data.intake.splitting import every_fifth
from heterofl_ray.data.sequence_draft import (
    IGNORED,
    LENGTH,
    padded,
    sentence_rows,
    sequence_draft,
    tagged_rows,
)
from heterofl_ray.data.store import Draft
from heterofl_ray.data.tokenizing import Tokenizer, WordTokenizer, open_tokenizer, split_words
from heterofl_ray.errors import DataError

_PARTS = ("train", "test")


def sentences_draft(name: str, given: Sentences, options: Options, *, origin: str) -> Draft:
    """Classes numbered by the training part, or numbers as they are."""
    train = given.train
    if given.test is None:
        testing = every_fifth(np.array(["" if given.numbers else s.label for s in train]), None)
        train, test = _divided(train, testing)
    else:
        test = given.test
    targets: list[dict[str, Array]]
    classes: tuple[str, ...] = ()
    if given.numbers:
        values = [_values(part, what) for part, what in ((train, "training"), (test, "test"))]
        targets = [{"label": np.zeros(len(v), dtype=np.int64), "number": v} for v in values]
    else:
        labels = [np.array([sentence.label for sentence in part]) for part in (train, test)]
        classes, *numbers = numbered(labels[0], labels[1], "class")
        targets = [{"label": values} for values in numbers]
    tokenizer = _tokenizer(
        options,
        (
            word
            for sentence in train
            for text in (sentence.first, sentence.second or "")
            for word in split_words(text)
        ),
    )
    most = _most(options)
    rows = [sentence_rows([s[:2] for s in part], tokenizer, most) for part in (train, test)]
    length = rows[0].longest
    if length < most:  # a test sequence may be longer than any for training
        rows[1] = sentence_rows([s[:2] for s in test], tokenizer, length)
    splits: dict[str, dict[str, Array]] = {
        part: {**row.columns(length), **target}
        for part, row, target in zip(_PARTS, rows, targets, strict=True)
    }
    return sequence_draft(
        name,
        {**splits},
        tokenizer,
        target="number" if given.numbers else "class",
        metric=given.metric,
        classes=classes,
        origin=origin,
    )


def tagged_draft(name: str, given: Tagged, options: Options, *, origin: str) -> Draft:
    """Tags in a fixed order: O, then B and I of each kind by name."""
    train, test = given.train, given.test
    if test is None:
        clients = np.array([s.client for s in train]) if given.named_clients else None
        train, test = _divided(train, every_fifth(np.zeros(len(train)), clients))
    kinds = sorted({tag.partition("-")[2] for s in train for tag in s.tags} - {""})
    classes = ("O", *(f"{place}-{kind}" for kind in kinds for place in "BI"))
    number = {tag: place for place, tag in enumerate(classes)}
    unknown = sorted({tag for s in test for tag in s.tags} - set(number))
    if unknown:
        raise DataError(f"the test part has a tag that the training part lacks: {unknown[0]}")
    tokenizer = _tokenizer(options, (word for s in train for word in s.words))
    most = _most(options)
    clients_of = {name: n for n, name in enumerate(sorted({s.client for s in train}))}
    stranger = next((s.client for s in test if s.client not in clients_of), None)
    if given.named_clients and stranger is not None:
        raise DataError(f"the test part has no client that the training part names ({stranger!r})")
    length, splits = most, {}
    for part, sentences in (("train", train), ("test", test)):
        numbers = [(s.words, [number[tag] for tag in s.tags]) for s in sentences]
        rows, tags = tagged_rows(numbers, tokenizer, length)
        length = rows.longest if part == "train" else length
        columns: dict[str, Any] = rows.columns(length)
        columns["tag"] = padded(tags, length, IGNORED)
        columns["label"] = np.array([_group(s, kinds) for s in sentences], dtype=np.int64)
        if given.named_clients:
            columns["client"] = np.array([clients_of[s.client] for s in sentences])
        splits[part] = columns
    return sequence_draft(
        name,
        {**splits},
        tokenizer,
        target="tags",
        metric="f1",
        classes=classes,
        origin=origin,
        clients=len(clients_of) if given.named_clients else 0,
    )


def _group(sentence: TaggedWords, kinds: Sequence[str]) -> int:
    """0 without an entity, else the place of the first one's kind."""
    first = next((tag for tag in sentence.tags if tag != "O"), None)
    return 0 if first is None else 1 + kinds.index(first.partition("-")[2])


def _divided(examples: list[Any], testing: Array) -> tuple[list[Any], list[Any]]:
    pairs = list(zip(examples, testing.tolist(), strict=True))
    return [e for e, tests in pairs if not tests], [e for e, tests in pairs if tests]


def _tokenizer(options: Options, words: Any) -> Tokenizer:
    return open_tokenizer(options.tokenizer) if options.tokenizer else WordTokenizer(words)


def _most(options: Options) -> int:
    return options.length or LENGTH


def _values(sentences: Sequence[Sentence], what: str) -> Array:
    values = []
    for sentence in sentences:
        try:
            value = float(sentence.label)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise DataError(f"the {what} part has {sentence.label!r} where a number is needed")
        values.append(value)
    return np.array(values, dtype=np.float32)
