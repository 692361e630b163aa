"""The runs of one report, with the name and the line that each has in every figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heterofl_ray.reporting import naming
from heterofl_ray.reporting.runs import Metric, Missing, Run
from heterofl_ray.reporting.style import Line, run_lines


@dataclass(frozen=True)
class Entry:
    """A run in a comparison."""

    run: Run
    label: str
    line: Line


@dataclass(frozen=True)
class Comparison:
    entries: Sequence[Entry]
    title: str
    """What the labels are values of, where that is one setting."""

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Comparison:
        lines = run_lines(_ranks(runs))
        texts = naming.labels(runs)
        entries = [Entry(*parts) for parts in zip(runs, texts, lines, strict=True)]
        return cls(entries, naming.label_title(runs))

    @property
    def runs(self) -> list[Run]:
        return [entry.run for entry in self.entries]

    @property
    def single(self) -> Run | None:
        """The run, where it is the only one."""
        return self.entries[0].run if len(self.entries) == 1 else None

    @property
    def rows(self) -> list[Entry]:
        """Runs with a row of their own in figures that have one for each: not more than fit."""
        return [entry for entry in self.entries if entry.line.named]


def by_metric(entries: Sequence[Entry]) -> dict[Metric, list[Entry]]:
    """Runs that were tested, by what they were tested for."""
    found: dict[Metric, list[Entry]] = {}
    for entry in entries:
        if entry.run.metric is not None:
            found.setdefault(entry.run.metric, []).append(entry)
    return found


def priced(entries: Sequence[Entry]) -> list[Entry]:
    """Runs whose levels' costs are known; it is `Missing` only where no run is left."""
    found, reason = [], None
    for entry in entries:
        try:
            entry.run.costs()
        except Missing as missing:
            reason = missing
        else:
            found.append(entry)
    if not found and reason is not None:
        raise reason
    return found


def _ranks(runs: Sequence[Run]) -> list[int]:
    """Each run's place by its last score, the best being 0; those without one come last."""

    def badness(index: int) -> tuple[bool, float]:
        score, metric = runs[index].score(), runs[index].metric
        if score is None or metric is None:
            return True, 0.0
        return False, -score if metric.larger_is_better else score

    places = sorted(range(len(runs)), key=badness)
    return [places.index(index) for index in range(len(runs))]
