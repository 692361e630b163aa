"""What readers take and what they give."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

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
