"""Learning curves: scores and training loss over the rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes

from heterofl_ray.reporting.comparison import Comparison, Entry, by_metric
from heterofl_ray.reporting.runs import Curve, Metric, Missing, Run
from heterofl_ray.reporting.style import (
    FAINT,
    INK,
    OTHERS,
    Plot,
    dot,
    drawing,
    halo,
    legend_below,
    legend_columns,
    level_colours,
    levels_in_legend,
    new_figure,
    rounds_axis,
    spread_axis,
)


def learning_curves(compared: Comparison) -> Plot:
    """The global score over the rounds, the local one where it differs, the best one marked."""
    metrics = by_metric(compared.entries)
    if not metrics:
        raise Missing("no run was tested yet")
    with drawing():
        figure = new_figure(3.6 * len(metrics) + _legend_height(compared))
        panels = figure.subplots(len(metrics), 1, squeeze=False)[:, 0]
        for axes, (metric, entries) in zip(panels, metrics.items(), strict=True):
            if compared.single is not None:
                _one_run(axes, compared.single, metric)
            else:
                _several(axes, entries, metric)
            axes.set_ylabel(metric.name + (", %" if metric.unit else ""))
        legend_below(figure, list(panels), compared.title)
    caption = "Score of the global model on the whole test set after each tested round."
    if any(_local_differs(run) for run in compared.runs):
        caption += " Dotted: on each client's own labels (Local)."
    if any(len(list(_level_curves(run))) for run in compared.runs) and compared.single:
        caption += " Thin: every level's sub-model."
    caption += " The star is the best round."
    if any(not entry.line.named for entry in compared.entries):
        caption += " Only the best runs have a colour; the rest is grey."
    return Plot("learning-curves", "Learning curves", caption, figure)


def _one_run(axes: Axes, run: Run, metric: Metric) -> None:
    colours = level_colours(run.config.levels)
    curve = run.curve(f"global_{metric.name}")
    colour = colours[run.config.levels.largest.name]
    axes.plot(curve.rounds, curve.values, color=colour, marker="o", label="global model", zorder=3)
    shown = [curve]
    named = levels_in_legend(run.config.levels)
    for name, curve_of_level in _level_curves(run):
        axes.plot(
            curve_of_level.rounds, curve_of_level.values, color=colours[name], linewidth=1.1,
            marker=".", markersize=3, label=f"sub-model {name}" if name in named else "_",
        )  # fmt: skip
        shown.append(curve_of_level)
    if _local_differs(run):
        local = run.curve(f"local_{metric.name}")
        axes.plot(local.rounds, local.values, color=INK, linestyle=":", marker=".", label="Local")
        shown.append(local)
    _finish(axes, shown, metric)
    if run.best is not None:
        number, value = run.best
        axes.plot([number], [value], "*", color=colour, markersize=13, markeredgecolor=INK)
        axes.annotate(
            f"best {metric.text(value)}, round {number}",
            (number, value),
            xytext=(0, 9 if metric.larger_is_better else -9),
            textcoords="offset points",
            ha=_side(number, curve.rounds),
            va="bottom" if metric.larger_is_better else "top",
            fontsize=9.5,
            path_effects=halo(),
            zorder=5,
        )


def _several(axes: Axes, entries: Sequence[Entry], metric: Metric) -> None:
    shown = []
    # The grey ones first, so that the others lie on top of them.
    for entry in sorted(entries, key=lambda entry: entry.line.named):
        run, line = entry.run, entry.line
        curve = run.curve(f"global_{metric.name}")
        _plot_run(axes, entry, curve)
        shown.append(curve)
        if _local_differs(run) and line.named:
            local = run.curve(f"local_{metric.name}")
            axes.plot(local.rounds, local.values, color=line.colour, linestyle=":", linewidth=1.3)
            shown.append(local)
        if run.best is not None and line.named:
            axes.plot(
                [run.best[0]], [run.best[1]], "*", color=line.colour, markersize=11,
                markeredgecolor=INK, markeredgewidth=0.7, zorder=4,
            )  # fmt: skip
    if any(not entry.line.named for entry in entries):
        axes.plot([], [], color=OTHERS, linewidth=0.9, label="others")
    _finish(axes, shown, metric)


def train_loss(compared: Comparison) -> Plot:
    """Mean training loss over the rounds: of each level for one run, of each run for several."""
    if not any(run.has("loss") for run in compared.runs):
        raise Missing("no run has a training loss that is a number")
    with drawing():
        figure = new_figure(3.4 + _legend_height(compared))
        axes = figure.subplots()
        shown = []
        run = compared.single
        if run is not None:
            named = levels_in_legend(run.config.levels)
            for level, colour in level_colours(run.config.levels).items():
                curve = run.curve(f"loss_{level}")
                if curve.values:
                    axes.plot(
                        curve.rounds, curve.values, color=colour, linewidth=1.4, marker="o",
                        markersize=dot(curve.rounds, 3),
                        label=f"level {level}" if level in named else "_",
                    )  # fmt: skip
                    shown.append(curve)
            curve = run.curve("loss")
            if len(curve.rounds) > 1:
                axes.plot(curve.rounds, curve.values, color=FAINT, linestyle="--", label="all")
            shown.append(curve)
        else:
            for entry in sorted(compared.entries, key=lambda entry: entry.line.named):
                curve = entry.run.curve("loss")
                _plot_run(axes, entry, curve)
                shown.append(curve)
        axes.set_ylabel("training loss")
        _finish(axes, shown)
        legend_below(figure, [axes], compared.title)
    caption = "Mean loss over the examples of the clients that trained in a round" + (
        ", by their level." if compared.single else "."
    )
    return Plot("train-loss", "Training loss", caption, figure)


def _plot_run(axes: Axes, entry: Entry, curve: Curve) -> None:
    line = entry.line
    axes.plot(
        curve.rounds,
        curve.values,
        color=line.colour,
        linestyle=line.dash,
        linewidth=1.8 if line.named else 0.9,
        marker=line.marker if line.named else "",
        markersize=dot(curve.rounds, 3.5),
        label=entry.label if line.named else "_",
    )


def _finish(axes: Axes, shown: Sequence[Curve], metric: Metric | None = None) -> None:
    rounds_axis(axes, [number for curve in shown for number in curve.rounds])
    if metric is None or not metric.unit:  # percents are read on an even scale
        spread_axis(axes, "y", [value for curve in shown for value in curve.values])
    axes.margins(y=0.12)


def _level_curves(run: Run) -> list[tuple[str, Curve]]:
    """Smaller levels' scores, where they were tested more than once."""
    if run.metric is None:
        return []
    curves = [
        (level.name, run.curve(f"level_{level.name}_{run.metric.name}"))
        for level in run.config.levels.levels[1:]
    ]
    return [(name, curve) for name, curve in curves if len(curve.rounds) > 1]


def _local_differs(run: Run) -> bool:
    if run.metric is None:
        return False
    local = run.curve(f"local_{run.metric.name}").values
    return bool(local) and local != run.curve(f"global_{run.metric.name}").values


def _side(number: int, rounds: Sequence[int]) -> str:
    """How a text at a round is aligned so that it stays inside."""
    low, high = min(rounds), max(rounds)
    place = (number - low) / (high - low) if high > low else 0.5
    return "left" if place < 0.3 else "right" if place > 0.7 else "center"


def _legend_height(compared: Comparison) -> float:
    """Inches that a legend under the figure takes, about."""
    if compared.single is not None:
        return 0.5
    named = [entry.label for entry in compared.entries if entry.line.named]
    return 0.3 + 0.2 * math.ceil(len(named) / legend_columns(named))
