"""Words to token numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from heterofl_ray.data.info import DataInfo
from heterofl_ray.data.store import Draft

UNKNOWN = "<unknown>"


def encode(name: str, train: Sequence[str], test: Sequence[str], *, origin: str) -> Draft:
    """A text data set whose vocabulary is the training part's words, in order of appearance.

    Token 0 is for words of the test part that the training part does not have.
    """
    words = [UNKNOWN, *(word for word in dict.fromkeys(train) if word != UNKNOWN)]
    numbers = {word: number for number, word in enumerate(words)}

    def tokens(text: Sequence[str]) -> NDArray[np.int32]:
        return np.fromiter((numbers.get(word, 0) for word in text), np.int32, len(text))

    return token_draft(name, tokens(train), tokens(test), words, origin=origin)


def token_draft(
    name: str,
    train: NDArray[np.int32],
    test: NDArray[np.int32],
    words: list[str],
    *,
    origin: str,
) -> Draft:
    """A text data set of tokens that number ``words``."""
    info = DataInfo(
        name=name,
        kind="text",
        train=len(train),
        test=len(test),
        dtype="int32",
        vocabulary=len(words),
        origin=origin,
    )
    return Draft(info, {"train": {"token": train}, "test": {"token": test}}, words)
