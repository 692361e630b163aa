"""The papers' printed figures, as they lie in the package."""

from __future__ import annotations

import csv
from importlib.resources import files


def printed(name: str) -> list[dict[str, str]]:
    """The lines of a table."""
    text = (files(__package__) / "paper" / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def number(text: str) -> float | None:
    return float(text) if text else None
