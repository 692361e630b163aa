"""A sweep's report: its front, how much each setting matters, all trials side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from heterofl_ray import __version__
from heterofl_ray.reporting.page import figure_section, left_out_section, table_html
from heterofl_ray.reporting.report import FORMATS, Written, draw_all, write_all
from heterofl_ray.reporting.style import Plot, brief
from heterofl_ray.reporting.stylesheet import STYLESHEET
from heterofl_ray.reporting.sweep_plots import coordinates_plot, front_plot, importance_plot
from heterofl_ray.reporting.sweep_records import read_records
from heterofl_ray.reporting.tables import Table

_FIGURES = {
    "The front": front_plot,
    "How much each setting matters": importance_plot,
    "All trials": coordinates_plot,
}
_SHOWN = 200
"""Trials in the table of all."""


@dataclass(frozen=True)
class Sweep:
    """What a sweep's folder tells."""

    folder: Path
    records: Mapping[str, Any]

    @property
    def complete(self) -> list[dict[str, Any]]:
        return [trial for trial in self.records["trials"] if trial["state"] == "complete"]

    @property
    def front(self) -> list[dict[str, Any]]:
        return [t for t in self.complete if t["number"] in self.records["front"]]


def open_sweep(folder: Path) -> Sweep:
    return Sweep(folder, read_records(folder))


def write_sweep_report(folder: Path, out: Path, formats: Sequence[str] = FORMATS) -> Written:
    """Write ``index.html`` and the figures of a sweep into ``out``."""
    sweep = open_sweep(folder)
    plots, left_out = draw_all(_FIGURES, sweep)
    page = write_all(out, plots, formats, _page(sweep, plots, left_out))
    runs = [folder / run for trial in sweep.records["trials"] for run in trial["runs"]]
    return Written(page, runs, [plot.name for plot in plots], left_out)


def _page(sweep: Sweep, plots: Sequence[Plot], left_out: Mapping[str, str]) -> str:
    records = sweep.records
    title = f"Sweep on {records['data']}"
    figures = "\n".join(figure_section(plot) for plot in plots)
    links = "".join(f'<a href="#{plot.name}">{escape(plot.title)}</a>' for plot in plots)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLESHEET}</style>\n</head>\n<body>\n<main>\n"
        f'<h1>{escape(title)}</h1>\n<p class="sub">{escape(_counts(sweep))}</p>\n'
        f'<nav aria-label="Figures">{links}<a href="#trials">Trials</a></nav>\n'
        f'<section class="card"><h2>Best trials</h2>{table_html(_table(sweep, sweep.front))}'
        f'<p class="note">heterofl-ray sweep best {escape(str(sweep.folder))} writes each as a '
        "file that repeats it, byte for byte.</p></section>\n"
        f'<div class="figures">\n{figures}\n</div>\n{left_out_section(left_out)}\n'
        f'<section class="card" id="trials"><h2>All trials</h2>'
        f"{table_html(_table(sweep, records['trials'][-_SHOWN:]))}</section>\n"
        f"<footer>heterofl-ray {escape(__version__)}</footer>\n</main>\n</body>\n</html>\n"
    )


def _counts(sweep: Sweep) -> str:
    states: dict[str, int] = {}
    for trial in sweep.records["trials"]:
        states[trial["state"]] = states.get(trial["state"], 0) + 1
    counted = ", ".join(f"{count} {state}" for state, count in states.items())
    wanted = ", ".join(
        f"{each['about']} {'up' if each['larger'] else 'down'}"
        for each in sweep.records["objectives"]
    )
    held = "; ".join(
        f"{name} at most {text}" for name, text in sweep.records["constraints"].items()
    )
    return f"Trials: {counted}. Objectives: {wanted}." + (f" Constraints: {held}." if held else "")


def _table(sweep: Sweep, trials: Sequence[Mapping[str, Any]]) -> Table:
    """What each trial was, and what came out."""
    objectives = [each["name"] for each in sweep.records["objectives"]]
    settings = list(dict.fromkeys(name for t in trials for name in t.get("settings", {})))
    rows = []
    for trial in sorted(trials, key=lambda t: _order(sweep, t)):
        values = trial["values"] or {}
        spread = trial.get("spread", {})
        row = [str(trial["number"])]
        for name in objectives:
            text = brief(values[name]) if name in values else ""
            row.append(text + (f" ± {brief(spread[name])}" if spread.get(name) and text else ""))
        row += [shown(trial.get("settings", {}).get(name, "")) for name in settings]
        row.append(trial.get("error") or trial.get("why") or trial["state"])
        rows.append(row)
    return Table(["trial", *objectives, *settings, ""], rows)


def _order(sweep: Sweep, trial: Mapping[str, Any]) -> tuple[int, float]:
    """The best of the first objective first; those without one behind, by number."""
    first = sweep.records["objectives"][0]
    if not trial["values"]:
        return 1, trial["number"]
    value = trial["values"][first["name"]]
    return 0, -value if first["larger"] else value


def shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
