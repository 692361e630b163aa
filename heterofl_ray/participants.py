"""Participants that each have a model of their own, as people type them: ``party:128-256:.2``.

First comes the name of a registered model, then its widths and its dropout where they are not to
be the model's usual ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from heterofl_ray.errors import ConfigError

_GRAMMAR = re.compile(r"([^\s:]+)(?::(\d+(?:-\d+)*)?(?::(\d*\.?\d+))?)?")


@dataclass(frozen=True)
class Participant:
    """What one participant trains."""

    model: str
    """The name of a registered model."""
    widths: tuple[int, ...] = ()
    """As network.hidden; empty: the model's own."""
    dropout: float | None = None
    """As network.dropout; None: as that is set."""


def parse_participant(setting: str, text: str) -> Participant:
    """The participant that ``text`` describes, in the setting of that name."""
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise ConfigError.of(setting, text, "write MODEL, MODEL:64-128 or MODEL:64-128:.2")
    model, widths, dropout = match.groups()
    found = Participant(
        model,
        tuple(int(width) for width in widths.split("-")) if widths else (),
        None if dropout is None else float(dropout),
    )
    if 0 in found.widths:
        raise ConfigError.of(setting, text, "widths must be 1 or more")
    if found.dropout is not None and found.dropout > 0.99:
        raise ConfigError.of(setting, text, "dropout must be at most 0.99")
    return found
