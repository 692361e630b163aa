"""Making a report: read the runs, draw what they allow, write the figures and the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from heterofl_ray.errors import ConfigError
from heterofl_ray.reporting.comparison import Comparison
from heterofl_ray.reporting.coverage import coverage_plot
from heterofl_ray.reporting.curves import learning_curves, train_loss
from heterofl_ray.reporting.folders import find_runs
from heterofl_ray.reporting.page import Report, render
from heterofl_ray.reporting.runs import Missing, open_runs
from heterofl_ray.reporting.savings import savings_plot
from heterofl_ray.reporting.scores import level_scores, score_by_parameters
from heterofl_ray.reporting.style import Plot
from heterofl_ray.reporting.tables import Table, has_costs, levels_table, savings_table
from heterofl_ray.reporting.timing import time_spent

FORMATS = ("png", "svg")
T = TypeVar("T")

_FIGURES: dict[str, Callable[[Comparison], Plot]] = {
    "Learning curves": learning_curves,
    "Score against parameters": score_by_parameters,
    "Scores of every level": level_scores,
    "Training loss": train_loss,
    "Bytes and FLOPs against all-large": savings_plot,
    "Where the time went": time_spent,
    "How often each part was trained": coverage_plot,
}


@dataclass(frozen=True)
class Written:
    """What was made."""

    page: Path
    runs: Sequence[Path]
    figures: Sequence[str]
    """Names of the files, without their endings."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Titles of figures that could not be made, and why."""


def write_report(runs: Sequence[Path], out: Path) -> Path:
    """Write ``index.html`` and every figure as PNG and SVG into ``out``; the page's path.

    ``runs`` are runs' folders, or folders of runs.
    """
    return make_report(runs, out).page


def make_report(
    runs: Sequence[Path], out: Path, formats: Sequence[str] = FORMATS, first: Sequence[Plot] = ()
) -> Written:
    """The same with only some formats of the figures' files, and with what was made.

    ``first``: figures to come before the others.
    """
    for name in formats:
        if name not in FORMATS:
            raise ConfigError.unknown("--format", name, FORMATS)
    folders = find_runs(runs)
    compared = Comparison.of(open_runs(folders))
    drawn, left_out = draw_all(_FIGURES, compared)
    plots = [*first, *drawn]
    text = render(Report(compared, plots, _tables(compared), left_out))
    page = write_all(out, plots, formats, text)
    return Written(page, folders, [plot.name for plot in plots], left_out)


def draw_all(
    figures: Mapping[str, Callable[[T], Plot]], subject: T
) -> tuple[list[Plot], dict[str, str]]:
    """The figures that can be made of ``subject``; titles of the others, and why not."""
    plots: list[Plot] = []
    left_out: dict[str, str] = {}
    for title, draw in figures.items():
        try:
            plots.append(draw(subject))
        except Missing as reason:
            left_out[title] = str(reason)
    return plots, left_out


def write_all(out: Path, plots: Sequence[Plot], formats: Sequence[str], text: str) -> Path:
    """The figures' files and the page; the page's path."""
    out.mkdir(parents=True, exist_ok=True)
    for plot in plots:
        plot.save(out, formats)
    page = out / "index.html"
    page.write_text(text, encoding="utf-8")
    return page


def _tables(compared: Comparison) -> dict[str, Table]:
    """The exact figures behind the pictures, where they are known."""
    found = {}
    if compared.single is not None and has_costs(compared.single):
        found["Levels"] = levels_table(compared.single)
    saved = savings_table(compared)
    if saved.rows:
        found["Bytes and FLOPs against all-large"] = saved
    return found
