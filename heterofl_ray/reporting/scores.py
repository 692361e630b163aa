"""Scores against size: mixes by their average client's parameters, and every level's sub-model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from heterofl_ray.reporting import naming
from heterofl_ray.reporting.comparison import Comparison, Entry, by_metric, priced
from heterofl_ray.reporting.runs import Metric, Missing, Run
from heterofl_ray.reporting.style import (
    FAINT,
    INK,
    Plot,
    drawing,
    halo,
    legend_below,
    level_colours,
    levels_in_legend,
    new_figure,
    spread_axis,
)

Point = tuple[float, float, str]
"""Where it lies, and its name."""

_MANY_LEVELS = 12
"""Levels that have room for a number each."""


def score_by_parameters(compared: Comparison) -> Plot:
    """The paper's interpolation figure; for one run, its levels by their own parameters."""
    metrics = by_metric(priced([entry for entry in compared.entries if entry.run.metric]))
    if not metrics:
        raise Missing("no run was tested yet")
    with drawing():
        figure = new_figure(3.7 * len(metrics))
        named: dict[Axes, list[Point]] = {}
        panels = figure.subplots(len(metrics), 1, squeeze=False)[:, 0]
        for axes, (metric, entries) in zip(panels, metrics.items(), strict=True):
            axes.set_ylabel(_score_label(metric))
            if compared.single is not None:
                named[axes] = _levels(axes, compared.single, metric)
            else:
                named[axes] = _mixes(axes, entries, metric)
        figure.draw_without_rendering()  # only now it is known where points lie
        for axes, points in named.items():
            _name_points(figure, axes, points)
    if compared.single is not None:
        title = "Score against parameters"
        caption = "The last score of every level's sub-model by the parameters it has."
    else:
        title = "Score against the average client's parameters"
        caption = (
            "The last global score by the number of parameters that a client trains on average "
            "over the mix. A line joins runs of the same levels in other shares."
        )
    return Plot("score-by-parameters", title, caption, figure)


def _levels(axes: Axes, run: Run, metric: Metric) -> list[Point]:
    scores, costs = run.level_scores(), run.costs()
    sizes = [costs[name].parameters for name in scores]
    colours = level_colours(run.config.levels)
    axes.plot(sizes, list(scores.values()), color=FAINT, linewidth=1, zorder=1)
    for size, (name, score) in zip(sizes, scores.items(), strict=True):
        axes.plot([size], [score], "o", color=colours[name], markersize=8)
    axes.set_xlabel("parameters of the sub-model")
    _finish(axes, sizes, list(scores.values()), metric)
    named = levels_in_legend(run.config.levels)
    points = zip(sizes, scores.values(), scores, strict=True)
    return [point for point in points if point[2] in named]


def _mixes(axes: Axes, entries: Sequence[Entry], metric: Metric) -> list[Point]:
    points = [
        (entry.run.average_costs().parameters, score, entry)
        for entry in entries
        if (score := entry.run.score()) is not None
    ]
    sizes, scores = [size for size, _, _ in points], [score for _, score, _ in points]

    def family(point: tuple[float, float, Entry]) -> str:
        """All that is the same in runs that differ in shares alone."""
        config = point[2].run.config
        settings = naming.settings_of(config) | {"mix": config.levels.name}
        return repr(settings)

    for _, group in groupby(sorted(points, key=family), key=family):
        joined = sorted(group, key=lambda point: point[0])
        axes.plot(
            [point[0] for point in joined], [point[1] for point in joined],
            color=FAINT, linewidth=1, zorder=1,
        )  # fmt: skip
    for size, score, entry in points:
        axes.plot(
            [size], [score], entry.line.marker, color=entry.line.colour,
            markersize=8 if entry.line.named else 5,
        )  # fmt: skip
    axes.set_xlabel("average parameters of a client")
    _finish(axes, sizes, scores, metric)
    return [
        (size, score, naming.shortened(entry.label, 34))
        for size, score, entry in points
        if entry.line.named
    ]


def _finish(axes: Axes, sizes: Sequence[float], scores: Sequence[float], metric: Metric) -> None:
    spread_axis(axes, "x", sizes)
    if not metric.unit:  # percents are read on an even scale
        spread_axis(axes, "y", scores)
    axes.margins(x=0.1, y=0.15)


def _name_points(figure: Figure, axes: Axes, points: Sequence[Point]) -> None:
    """Write names beside points, each where it covers nothing; a name without room is left out."""
    frame = axes.get_window_extent()
    unit = figure.dpi / 72
    spots = [axes.transData.transform((x, y)) for x, y, _ in points]
    taken = [(x - 5 * unit, y - 5 * unit, x + 5 * unit, y + 5 * unit) for x, y in spots]
    for x, y, name in points:
        for dx, dy, ha, va in (
            (0, 8, "center", "bottom"),
            (0, -8, "center", "top"),
            (8, 0, "left", "center"),
            (-8, 0, "right", "center"),
            (7, 7, "left", "bottom"),
            (-7, 7, "right", "bottom"),
            (7, -7, "left", "top"),
            (-7, -7, "right", "top"),
        ):
            text: Text = axes.annotate(
                name, (x, y), xytext=(dx, dy), textcoords="offset points", ha=ha, va=va,
                fontsize=9.5, color=INK, path_effects=halo(),
            )  # fmt: skip
            box = text.get_window_extent()
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 + 4 * unit
            inside = inside and frame.y0 <= box.y0 and box.y1 <= frame.y1 + 4 * unit
            if inside and not any(
                box.x0 < right and left < box.x1 and box.y0 < top and bottom < box.y1
                for left, bottom, right, top in taken
            ):
                taken.append((box.x0, box.y0, box.x1, box.y1))
                break
            text.remove()


def level_scores(compared: Comparison) -> Plot:
    """The last score of every level's sub-model."""
    metrics = {
        metric: tested
        for metric, entries in by_metric(compared.entries).items()
        if (tested := [entry for entry in entries if len(entry.run.level_scores()) > 1])
    }
    if not metrics:
        raise Missing(
            "no run was tested at more than one level; evaluation.levels=final does that after "
            "the last round"
        )
    with drawing():
        figure = new_figure(3.3 * len(metrics) + (0 if compared.single else 0.6))
        panels = figure.subplots(len(metrics), 1, squeeze=False)[:, 0]
        for axes, (metric, entries) in zip(panels, metrics.items(), strict=True):
            if compared.single is not None:
                _bars(axes, compared.single, metric)
            else:
                _level_lines(axes, entries, metric)
            axes.set_ylabel(_score_label(metric))
        if compared.single is None:
            legend_below(figure, list(panels), compared.title)
    caption = "Each level's slice of the final global model, tested by itself on the whole test set"
    return Plot("level-scores", "Scores of every level", caption + ".", figure)


def _bars(axes: Axes, run: Run, metric: Metric) -> None:
    scores = run.level_scores()
    colours = level_colours(run.config.levels)
    bars = axes.bar(
        range(len(scores)), list(scores.values()), width=0.65, color=[colours[n] for n in scores]
    )
    named = levels_in_legend(run.config.levels)
    places = [place for place, name in enumerate(scores) if name in named]
    axes.set_xticks(places, [list(scores)[place] for place in places])
    axes.set_xlabel("level")
    axes.grid(visible=False, axis="x")
    if len(scores) <= _MANY_LEVELS:
        axes.bar_label(bars, [metric.text(value) for value in scores.values()], padding=2)
    axes.margins(y=0.12)


def _level_lines(axes: Axes, entries: Sequence[Entry], metric: Metric) -> None:
    rates = {
        level.name: level.rate for entry in entries for level in entry.run.config.levels.levels
    }
    names = sorted(rates, key=lambda name: -rates[name])
    every: list[float] = []
    for entry in sorted(entries, key=lambda entry: entry.line.named):
        scores = entry.run.level_scores()
        places = [names.index(name) for name in scores]
        axes.plot(
            places, list(scores.values()), color=entry.line.colour, linestyle=entry.line.dash,
            marker=entry.line.marker, linewidth=1.3, markersize=6,
            label=entry.label if entry.line.named else "_",
        )  # fmt: skip
        every += scores.values()
    axes.set_xticks(range(len(names)), names)
    axes.set_xlabel("level")
    if len(names) > _MANY_LEVELS:
        axes.tick_params(axis="x", rotation=90, labelsize=7)
    if not metric.unit:
        spread_axis(axes, "y", every)
    axes.margins(y=0.12)


def _score_label(metric: Metric) -> str:
    return metric.name + (", %" if metric.unit else "")
