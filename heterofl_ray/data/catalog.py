"""Data sets that are known by name. Importing this does not import torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """A known data set and how it becomes Arrow files."""

    task: str
    about: str
    convert: str
    """'module:function' making a `store.Draft`."""


_EMBEDDED = "heterofl_ray.data.embedded:"
SOURCES: dict[str, Source] = {
    "digits": Source(
        "images", "8x8 handwritten digits that scikit-learn ships", _EMBEDDED + "digits"
    ),
    "pydocs": Source("text", "Python's own help topics, as words", _EMBEDDED + "pydocs"),
}
