"""The table as people read it: on the terminal, as Markdown and as CSV."""

from __future__ import annotations

import csv
import json
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from heterofl_ray import __version__
from heterofl_ray.reporting.numbers import short_number
from heterofl_ray.reporting.style import Plot
from heterofl_ray.reporting.tables import NONE, Table
from heterofl_ray.reproducing.outcome import Answer, Answered, Outcome

JSON_FILE = "outcome.json"


def table(outcome: Outcome) -> Table:
    """Every row with its costs, and for every column the paper's value, ours and the difference."""
    exhibit = outcome.exhibit
    headings = [*exhibit.rows[0].labels, "ratio", "parameters", "FLOPs", "MB"]
    printed = {c.column for row in exhibit.rows for c in row.cells if c.paper is not None}
    for column in exhibit.columns:
        headings += [f"{column}: paper", "ours", "difference"] if column in printed else [column]
    headings += ["rounds", "minutes"]
    return Table(headings, [_line(row, exhibit.columns, printed) for row in outcome.rows])


def _line(row: Answered, columns: Sequence[str], printed: set[str]) -> list[str]:
    costs = row.costs()
    line = [*row.row.labels.values()]
    if costs is None:
        line += [NONE] * 4
    else:
        line += [
            f"{costs['ratio']:.2f}",
            short_number(costs["parameters"]),
            short_number(costs["flops_paper"]),
        ]
        line.append(f"{costs['space_mb']:.2f}")
    known = {answer.cell.column: answer for answer in row.answers}
    for column in columns:
        answer = known.get(column)
        texts = [NONE] * 3 if answer is None else _texts(answer)
        line += texts if column in printed else [texts[1]]
    rounds = sorted({answer.rounds for answer in row.answers if answer.rounds is not None})
    line.append("/".join(str(number) for number in rounds) or NONE)
    line.append(f"{row.seconds / 60:.0f}" if row.done else NONE)
    return line


def _texts(answer: Answer) -> list[str]:
    measured, difference = answer.measured, answer.difference
    ours = NONE
    if measured is not None:
        spread = "" if measured.spread is None else f" ± {measured.spread:.2f}"
        ours = f"{measured.mean:.2f}{spread}"
    paper = NONE if answer.cell.paper is None else f"{answer.cell.paper:g}"
    return [paper, ours, NONE if difference is None else f"{difference:+.2f}"]


def write(outcome: Outcome, plots: Sequence[Plot], folder: Path) -> Path:
    """table.md, table.csv, outcome.json and the pictures; the Markdown page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    for plot in plots:
        plot.save(folder, ("png", "svg"))
    (folder / JSON_FILE).write_text(json.dumps(outcome.to_dict(), indent=1) + "\n", "utf-8")
    shown = table(outcome)
    with (folder / "table.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([shown.headings, *shown.rows])
    page = folder / "table.md"
    page.write_text(_markdown(outcome, shown, plots), encoding="utf-8")
    return page


def _markdown(outcome: Outcome, shown: Table, plots: Sequence[Plot]) -> str:
    def line(texts: Sequence[str]) -> str:
        return "| " + " | ".join(texts) + " |"

    labels = len(outcome.exhibit.rows[0].labels)
    rule = [":--"] * labels + ["--:"] * (len(shown.headings) - labels)
    parts = [
        f"# {outcome.exhibit.title}",
        f"{outcome.metric.capitalize()}{_seeds(outcome)}; made by heterofl-ray {__version__}, "
        f"torch {version('torch')}, {platform.machine()}.",
        "\n".join([line(shown.headings), line(rule), *(line(row) for row in shown.rows)]),
        *outcome.notes,
        *(f"![{plot.title}]({plot.name}.png)\n\n{plot.caption}" for plot in plots),
        "## Commands",
        "```\n" + "\n".join(_commands(outcome)) + "\n```",
    ]
    if outcome.left_out:
        lines = [f"- {name}: {reason}" for name, reason in outcome.left_out.items()]
        parts += ["## Left out", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def _seeds(outcome: Outcome) -> str:
    seeds = max(len(answer.runs) for answer in outcome.answers)
    return f", mean ± standard deviation over {seeds} seeds" if seeds > 1 else " of one seed"


def _commands(outcome: Outcome) -> list[str]:
    every = (cell for row in outcome.to_dict()["rows"] for cell in row["cells"])
    return list(dict.fromkeys(command for cell in every for command in cell["commands"]))
