"""The HTML page: everything in one file, nothing loaded from anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from heterofl_ray import __version__
from heterofl_ray.reporting import naming
from heterofl_ray.reporting.comparison import Comparison
from heterofl_ray.reporting.runs import Run
from heterofl_ray.reporting.style import Plot
from heterofl_ray.reporting.stylesheet import STYLESHEET
from heterofl_ray.reporting.tables import Table, facts, overview, progress_text


@dataclass(frozen=True)
class Report:
    """What a page shows."""

    compared: Comparison
    plots: Sequence[Plot]
    tables: Mapping[str, Table] = field(default_factory=dict)
    """Exact figures, by title."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Titles of figures that could not be made, and why."""


def render(report: Report) -> str:
    title = _title(report.compared)
    figures = "\n".join(figure_section(plot) for plot in report.plots)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLESHEET}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(title)}</h1>\n{_subtitle(report.compared)}\n{_contents(report.plots)}\n"
        f"{_top(report.compared)}\n"
        f'<div class="figures">\n{figures}\n</div>\n{_tables(report.tables)}\n'
        f"{left_out_section(report.left_out)}\n"
        f"{_runs(report.compared.runs)}\n"
        f"<footer>heterofl-ray {escape(__version__)}</footer>\n</main>\n</body>\n</html>\n"
    )


def _title(compared: Comparison) -> str:
    run = compared.single
    if run is not None:
        return f"{run.config.data}, mix {run.config.mix}"
    data = dict.fromkeys(run.config.data for run in compared.runs)
    return f"{len(compared.runs)} runs on {', '.join(data)}"


def _subtitle(compared: Comparison) -> str:
    run = compared.single
    if run is not None:
        return f'<p class="sub">{escape(run.name)}: {escape(progress_text(run))}</p>'
    names = naming.differing(compared.runs)
    text = f"They differ in {', '.join(names)}." if names else "Their settings are the same."
    return f'<p class="sub">{escape(text)}</p>'


def _contents(plots: Sequence[Plot]) -> str:
    links = "".join(f'<a href="#{plot.name}">{escape(plot.title)}</a>' for plot in plots)
    return f'<nav aria-label="Figures">{links}<a href="#runs">Settings</a></nav>'


def _top(compared: Comparison) -> str:
    run = compared.single
    if run is None:
        return f'<section class="card">{table_html(overview(compared))}</section>'
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>'
        for name, value in facts(run)
    )
    return f'<section class="card"><table class="facts"><tbody>{rows}</tbody></table></section>'


def figure_section(plot: Plot) -> str:
    return (
        f'<section class="card" id="{plot.name}">\n<h2>{escape(plot.title)}</h2>\n'
        f"<figure>{plot.inline()}\n<figcaption>{escape(plot.caption)}</figcaption></figure></section>"
    )


def _tables(tables: Mapping[str, Table]) -> str:
    return "\n".join(
        f'<section class="card"><h2>{escape(title)}</h2>{table_html(table)}</section>'
        for title, table in tables.items()
    )


def table_html(table: Table) -> str:
    headings = "".join(f'<th scope="col">{escape(text)}</th>' for text in table.headings)
    rows = []
    for place, row in enumerate(table.rows):
        cells = [f"<td>{escape(text)}</td>" for text in row]
        if table.swatches:
            dot = f'<span class="swatch" style="background:{table.swatches[place]}"></span>'
            cells[0] = f"<td>{dot}{escape(row[0])}</td>"
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<div class="scroll"><table class="numbers"><thead><tr>{headings}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def left_out_section(reasons: Mapping[str, str]) -> str:
    if not reasons:
        return ""
    lines = "".join(
        f"<p><strong>{escape(title)}</strong>: {escape(reason)}.</p>"
        for title, reason in reasons.items()
    )
    return f'<section class="card"><h2>Left out</h2>{lines}</section>'


def _runs(runs: Sequence[Run]) -> str:
    """How to repeat each run, and all its settings."""
    parts = []
    for run in runs:
        command = f"<pre>{escape(naming.reproduce(run))}</pre>"
        settings = f"<pre>{escape(run.config.to_yaml())}</pre>"
        if len(runs) == 1:
            parts.append(
                f"<h2>Run it again</h2>{command}"
                f"<details><summary>All settings</summary>{settings}</details>"
            )
            continue
        rows = "".join(
            f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>'
            for name, value in facts(run)
        )
        parts.append(
            f"<details><summary>{escape(run.name)}</summary>"
            f'<table class="facts"><tbody>{rows}</tbody></table>{command}'
            f"<details><summary>All settings</summary>{settings}</details></details>"
        )
    heading = "" if len(runs) == 1 else "<h2>Each run</h2>"
    note = (
        '<p class="note">The command gives the same model, byte for byte; where it runs '
        "(execution.backend, workers, …) does not matter.</p>"
    )
    return f'<section class="card" id="runs">{heading}{"".join(parts)}{note}</section>'
