"""What a table or figure of a paper is made of: rows of values, each the outcome of a run.

Nothing here imports torch, so mistakes are answered at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from heterofl_ray.errors import ConfigError


@dataclass(frozen=True)
class Cell:
    """A value, the run that gives it, and what the paper printed."""

    column: str
    preset: str
    settings: tuple[str, ...]
    paper: float | None = None
    """None: the paper shows it in a picture only."""
    at: tuple[str, ...] = ("global",)
    """Where it is in the run's summary; of several scores there the first is meant."""

    def value(self, summary: Mapping[str, Any]) -> float | None:
        found: Any = summary
        for key in self.at:
            found = found.get(key, {}) if isinstance(found, Mapping) else {}
        if isinstance(found, Mapping):
            found = next(iter(found.values()), None)
        return None if found is None else float(found)


@dataclass(frozen=True)
class Row:
    """A line of a table, or a point of a figure."""

    labels: Mapping[str, str]
    cells: tuple[Cell, ...]
    note: str = ""
    """What a reader must know of this one."""

    @property
    def name(self) -> str:
        """As it is typed: 'd-e', or 'a-e:sbn:yes'."""
        return ":".join(self.labels.values())

    def only(self, columns: Sequence[str]) -> Row:
        return replace(self, cells=tuple(c for c in self.cells if c.column in columns))

    def is_meant(self, word: str) -> bool:
        """By its name, or by the beginning of it: 'a-e' means every row of that mix."""
        return self.name == word or self.name.startswith(f"{word}:")


@dataclass(frozen=True)
class Exhibit:
    """A table or a figure."""

    name: str
    title: str
    rows: tuple[Row, ...]
    drawn: str = "side by side"
    """How its picture looks: side by side, interpolation, curves or participants."""
    notes: tuple[str, ...] = ()
    """What a reader must know to compare."""

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(cell.column for row in self.rows for cell in row.cells))

    def choose(self, rows: str | None, columns: str | None) -> Exhibit:
        """Only what is named, with commas between; rows in the paper's order."""
        chosen = self.rows
        if rows is not None:
            words = rows.split(",")
            for word in words:
                if not any(row.is_meant(word) for row in self.rows):
                    raise ConfigError.unknown("--rows", word, _beginnings(self.rows))
            chosen = tuple(row for row in chosen if any(row.is_meant(word) for word in words))
        if columns is not None:
            named = columns.split(",")
            for word in named:
                if word not in self.columns:
                    raise ConfigError.unknown("--columns", word, self.columns)
            chosen = tuple(row.only(named) for row in chosen if row.only(named).cells)
            if not chosen:
                raise ConfigError.of("--columns", columns, "none of the chosen rows has it")
        return replace(self, rows=chosen)

    def on_other_data(self) -> Exhibit:
        """The same without the paper's values, which are not of that data."""
        rows = (
            replace(row, cells=tuple(replace(cell, paper=None) for cell in row.cells))
            for row in self.rows
        )
        return replace(self, rows=tuple(rows), notes=("Not on the paper's data.",))


def _beginnings(rows: Sequence[Row]) -> list[str]:
    """Few words that mean all the rows."""
    return list(dict.fromkeys(row.name.partition(":")[0] for row in rows))
