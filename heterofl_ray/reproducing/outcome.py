"""What came out beside what was printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from heterofl_ray.reporting.methods import Measured
from heterofl_ray.reporting.runs import Missing, Run
from heterofl_ray.reproducing.exhibits import Cell, Exhibit, Row
from heterofl_ray.reproducing.plan import command


@dataclass(frozen=True)
class Answer:
    """A cell and its runs, one for each seed; none: not run."""

    cell: Cell
    runs: Sequence[Run]

    @property
    def measured(self) -> Measured | None:
        values = [self.cell.value(run.summary) for run in self.runs]
        known = [value for value in values if value is not None]
        return Measured(known) if known else None

    @property
    def difference(self) -> float | None:
        """Ours less the paper's, also where ours had fewer rounds."""
        if self.measured is None or self.cell.paper is None:
            return None
        return self.measured.mean - self.cell.paper

    @property
    def rounds(self) -> int | None:
        return self.runs[0].rounds if self.runs else None


@dataclass(frozen=True)
class Answered:
    """A row with its answers."""

    row: Row
    answers: Sequence[Answer]

    @property
    def done(self) -> bool:
        return any(answer.runs for answer in self.answers)

    @property
    def seconds(self) -> float:
        """Of all its runs' rounds, before and after they were stopped.

        A run that gives two values counts once.
        """
        runs = {run.folder: run for answer in self.answers for run in answer.runs}
        return sum(sum(run.column("seconds")) for run in runs.values())

    def costs(self) -> dict[str, float] | None:
        """Of the mix's average client, as the paper's tables have them."""
        run = next((answer.runs[0] for answer in self.answers if answer.runs), None)
        try:
            if run is None:
                return None
            average, largest = run.average_costs(), next(iter(run.costs().values()))
        except Missing:
            return None
        return {
            "ratio": average.parameters / largest.parameters,
            "parameters": average.parameters,
            "flops_paper": average.flops_paper,
            "space_mb": average.space_mb,
        }


@dataclass(frozen=True)
class Outcome:
    """A whole table or figure."""

    exhibit: Exhibit
    rows: Sequence[Answered]
    left_out: Mapping[str, str]
    """What was not run, and why."""

    @property
    def answers(self) -> list[Answer]:
        return [answer for row in self.rows for answer in row.answers]

    @property
    def notes(self) -> list[str]:
        """What a reader must know to compare."""
        of_rows = (row.row.note for row in self.rows if row.row.note)
        return [*self.exhibit.notes, *dict.fromkeys(of_rows)]

    @property
    def metric(self) -> str:
        run = next(run for answer in self.answers for run in answer.runs)
        return run.metric.name if run.metric is not None else "score"

    def to_dict(self) -> dict[str, Any]:
        """The JSON of the command."""
        return {
            "exhibit": self.exhibit.name,
            "title": self.exhibit.title,
            "metric": self.metric,
            "notes": self.notes,
            "rows": [_row(row) for row in self.rows],
            "left_out": dict(self.left_out),
        }


def _row(row: Answered) -> dict[str, Any]:
    return {
        "name": row.row.name,
        **row.row.labels,
        "costs": row.costs(),
        "seconds": row.seconds,
        "cells": [_cell(answer) for answer in row.answers],
    }


def _cell(answer: Answer) -> dict[str, Any]:
    measured, cell = answer.measured, answer.cell
    return {
        "column": cell.column,
        "paper": cell.paper,
        "mean": None if measured is None else measured.mean,
        "spread": None if measured is None else measured.spread,
        "values": [] if measured is None else list(measured.values),
        "difference": answer.difference,
        "rounds": answer.rounds,
        "commands": [command(run.config, cell) for run in answer.runs],
        "runs": [str(run.folder) for run in answer.runs],
        "model_sha256": [run.summary.get("model_sha256") for run in answer.runs],
    }
