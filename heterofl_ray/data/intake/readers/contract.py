"""What readers take and what they give."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the user says about the files, beyond where they are."""

    test: Path | None = None
    label: str | None = None
    client: str | None = None
    size: tuple[int, int] | None = None
    """Height and width every image is scaled to."""
    prefix: str | None = None
    """How names of IDX files begin; None: as found."""
    tokenizer: Path | None = None
    """Whose tokens sentences become; None: the training part's own words."""
    length: int | None = None
    """Tokens of the longest sequence."""


@dataclass(frozen=True)
class Part:
    """Examples as they were read: any layout of channels, any kind of label."""

    images: Array
    labels: Array
    clients: Array | None = None
    coarse: Array | None = None


@dataclass(frozen=True)
class Labelled:
    """Images or features with labels. Without a test part, one is taken from the training part."""

    train: Part
    test: Part | None = None
    classes: tuple[str, ...] = ()
    """Names by label, where labels are numbers."""
    coarse: tuple[str, ...] = ()


@dataclass(frozen=True)
class Words:
    """Text as words. Without a test part, it is the last tenth."""

    train: list[str]
    test: list[str] | None = None


class Sentence(NamedTuple):
    """A text, or a pair of texts, and what is to be told of it."""

    first: str
    second: str | None
    label: str


@dataclass(frozen=True)
class Sentences:
    """Without a test part, one is taken from the training part."""

    train: list[Sentence]
    test: list[Sentence] | None
    numbers: bool
    """Labels are numbers, not classes."""
    metric: str


class TaggedWords(NamedTuple):
    """A sentence with a tag for every word."""

    words: list[str]
    tags: list[str]
    client: str = ""


@dataclass(frozen=True)
class Tagged:
    """Without a test part, one is taken from the training part."""

    train: list[TaggedWords]
    test: list[TaggedWords] | None
    named_clients: bool = False
