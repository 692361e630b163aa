"""The pictures: tables as dots beside the paper's, figures as the paper draws them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes

from heterofl_ray.reporting.runs import Missing, Run
from heterofl_ray.reporting.style import (
    FAINT,
    INK,
    Line,
    Plot,
    drawing,
    legend_below,
    new_figure,
    rounds_axis,
    run_lines,
    spread_axis,
)
from heterofl_ray.reproducing.outcome import Answer, Answered, Outcome


def draw(outcome: Outcome) -> Plot:
    """The exhibit's picture."""
    return _PICTURES[outcome.exhibit.drawn](outcome)


def side_by_side(outcome: Outcome) -> Plot:
    """A panel for each column: every row's printed value as a ring, ours as a dot."""
    columns = outcome.exhibit.columns
    rows = [row for row in outcome.rows if row.done]
    with drawing():
        figure = new_figure(1.5 + 0.3 * len(rows))
        panels = figure.subplots(1, len(columns), squeeze=False, sharey=True)[0]
        for axes, column in zip(panels, columns, strict=True):
            _column(axes, rows, column)
            axes.set_title(column)
            axes.set_xlabel(_unit(outcome))
        panels[0].set_yticks(range(len(rows)), [row.row.name for row in rows])
        panels[0].set_ylim(len(rows) - 0.4, -0.6)
        legend_below(figure, list(panels))
    caption = "Rings are the paper's printed values, dots ours; bars show the spread over seeds."
    return Plot(outcome.exhibit.name, outcome.exhibit.title, caption, figure)


def _column(axes: Axes, rows: Sequence[Answered], column: str) -> None:
    found = [
        (place, answer)
        for place, row in enumerate(rows)
        for answer in row.answers
        if answer.cell.column == column and answer.runs
    ]
    printed = [(place, a.cell.paper) for place, a in found if a.cell.paper is not None]
    axes.plot(
        [value for _, value in printed], [place for place, _ in printed], "o", markersize=10,
        markerfacecolor="none", markeredgecolor=FAINT, label="paper",
    )  # fmt: skip
    ours = [(place, a.measured) for place, a in found if a.measured is not None]
    axes.errorbar(
        [each.mean for _, each in ours], [place for place, _ in ours],
        xerr=[each.spread or 0.0 for _, each in ours],
        fmt="o", color="#0072b2", ecolor=INK, elinewidth=1, capsize=3, markersize=5, label="ours",
    )  # fmt: skip
    axes.margins(x=0.12)


def interpolation(outcome: Outcome) -> Plot:
    """A panel for each larger level, a line for each smaller one, over the average size."""
    rows = [row for row in outcome.rows if row.done]
    groups: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for row in rows:
        costs, measured = row.costs(), row.answers[0].measured
        if costs is not None and measured is not None:
            large, small = row.row.labels["levels"].split("-")
            lines = groups.setdefault(large, {})
            lines.setdefault(small, []).append((costs["parameters"], measured.mean))
    if not groups:
        raise Missing("no run has costs and a score")
    with drawing():
        across = 2 if len(groups) > 1 else 1
        down = -(-len(groups) // across)
        figure = new_figure(0.7 + 2.9 * down)
        panels = figure.subplots(down, across, squeeze=False).ravel()
        looks = dict(zip("bcde", run_lines(range(4)), strict=True))
        for axes, (large, lines) in zip(panels, groups.items(), strict=False):
            sizes = [size for points in lines.values() for size, _ in points]
            for small, points in lines.items():
                _line(axes, sorted(points), looks[small], f"with {small}")
            only = f", smaller level {next(iter(lines))}" if len(lines) == 1 else ""
            axes.set_title(f"larger level {large}{only}")
            axes.set_xlabel("average parameters of a client")
            axes.set_ylabel(_unit(outcome))
            spread_axis(axes, "x", sizes)
        for axes in panels[len(groups) :]:
            axes.set_visible(False)
        legend_below(figure, list(panels), "smaller level")
    caption = "From left to right more clients have the larger model, 10 % to 100 %, each for good."
    return Plot(outcome.exhibit.name, outcome.exhibit.title, caption, figure)


def _line(axes: Axes, points: Sequence[tuple[float, float]], look: Line, label: str) -> None:
    axes.plot(
        [x for x, _ in points], [y for _, y in points], color=look.colour, marker=look.marker,
        label=label,
    )  # fmt: skip


def curves(outcome: Outcome) -> Plot:
    """A panel for each column: levels drawn anew as lines, levels kept as dashes."""
    columns = outcome.exhibit.columns
    pairs = list(dict.fromkeys(r.row.labels["levels"] for r in outcome.rows if r.done))
    looks = dict(zip(pairs, run_lines(range(len(pairs))), strict=True))
    with drawing():
        figure = new_figure(1.0 + 2.9 * len(columns))
        panels = figure.subplots(len(columns), 1, squeeze=False)[:, 0]
        for axes, column in zip(panels, columns, strict=True):
            rounds: list[int] = []
            for row in outcome.rows:
                for answer in row.answers:
                    if answer.cell.column == column and answer.runs:
                        rounds += _curve(axes, row, answer, looks)
            axes.set_title(column)
            axes.set_ylabel(_unit(outcome))
            rounds_axis(axes, rounds)
        legend_below(figure, list(panels))
    caption = "Scores after each tested round of the first seed. Dashed: levels that clients keep."
    return Plot(outcome.exhibit.name, outcome.exhibit.title, caption, figure)


def _curve(axes: Axes, row: Answered, answer: Answer, looks: dict[str, Line]) -> list[int]:
    labels, run = row.row.labels, answer.runs[0]
    curve = run.curve(f"{answer.cell.at[0]}_{_metric(run)}")
    axes.plot(
        curve.rounds, curve.values, color=looks[labels["levels"]].colour,
        linestyle="--" if labels["assignment"] == "fix" else "-", marker=".", markersize=3,
        label=f"{labels['levels']}, {labels['assignment']}",
    )  # fmt: skip
    return list(curve.rounds)


def participants(outcome: Outcome) -> Plot:
    """A panel for each setting: a line for each participant, from its baseline to its bound."""
    panels_of: dict[str, list[tuple[str, Run]]] = {}
    for row in outcome.rows:
        for answer in row.answers:
            if answer.runs and answer.cell.at[-1] == "accuracy":
                name = answer.cell.column.removesuffix("-accuracy")
                who = row.row.labels["participant"]
                panels_of.setdefault(name, []).append((who, answer.runs[0]))
    looks = run_lines(range(len(outcome.rows)))
    with drawing():
        figure = new_figure(1.0 + 3.2 * len(panels_of))
        panels = figure.subplots(len(panels_of), 1, squeeze=False)[:, 0]
        for axes, (name, lines) in zip(panels, panels_of.items(), strict=True):
            for (who, run), look in zip(lines, looks, strict=False):
                _participant(axes, who, run, look)
            axes.set_title(name)
            axes.set_xlabel("round")
            axes.set_ylabel("accuracy, %")
        legend_below(figure, list(panels), "participant")
    caption = (
        "From the accuracy after transfer learning, at round 0. Crosses: the same model trained on "
        "everybody's private examples."
    )
    return Plot(outcome.exhibit.name, outcome.exhibit.title, caption, figure)


def _participant(axes: Axes, name: str, run: Run, look: Line) -> None:
    level = f"p{int(name) - 1}"
    curve, scores = run.curve(f"level_{level}_accuracy"), run.summary["levels"][level]
    rounds, values = [0, *curve.rounds], [scores["baseline"], *curve.values]
    axes.plot(rounds, values, color=look.colour, linestyle=look.dash, marker=".", label=name)
    if "pooled" in scores:
        axes.plot([rounds[-1] * 1.04], [scores["pooled"]], "x", color=look.colour)


def _metric(run: Run) -> str:
    return run.metric.name if run.metric is not None else ""


def _unit(outcome: Outcome) -> str:
    return outcome.metric + ("" if outcome.metric == "perplexity" else ", %")


_PICTURES: dict[str, Callable[[Outcome], Plot]] = {
    "side by side": side_by_side,
    "interpolation": interpolation,
    "curves": curves,
    "participants": participants,
}
