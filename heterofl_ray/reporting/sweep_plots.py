"""The figures of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib import colormaps
from matplotlib.axes import Axes

from heterofl_ray.reporting.runs import Missing
from heterofl_ray.reporting.style import (
    FAINT,
    INK,
    OTHERS,
    Plot,
    brief,
    drawing,
    halo,
    legend_below,
    new_figure,
    spread_axis,
)

if TYPE_CHECKING:
    from heterofl_ray.reporting.sweeps import Sweep

_FRONT, _BAR = "#4477aa", ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9")
_MOST_NAMED = 12
"""Points of a front that have room for their numbers."""

Trial = Mapping[str, Any]


def front_plot(sweep: Sweep) -> Plot:
    """Each further objective against the first; with one objective, how it went over the trials."""
    trials, objectives = sweep.complete, sweep.records["objectives"]
    if not trials:
        raise Missing("no trial is complete yet")
    if len(objectives) == 1:
        return _history(sweep)
    first, *others = objectives
    with drawing():
        figure = new_figure(3.6 * len(others))
        panels = figure.subplots(len(others), 1, squeeze=False)[:, 0]
        for axes, other in zip(panels, others, strict=True):
            _scatter(axes, sweep, other, first)
        legend_below(figure, list(panels))
    caption = (
        "Every complete trial. Those on the front are beaten by no other in all objectives at "
        "once; a line joins them, and numbers name trials."
    )
    return Plot("front", "The front", caption, figure)


def _scatter(axes: Axes, sweep: Sweep, x: Mapping[str, Any], y: Mapping[str, Any]) -> None:
    def places(trials: Sequence[Trial]) -> list[tuple[float, float, int]]:
        found = [(t["values"][x["name"]], t["values"][y["name"]], t["number"]) for t in trials]
        return sorted(found)

    front = places(sweep.front)
    rest = places([t for t in sweep.complete if t not in sweep.front])
    if rest:
        axes.plot(
            [p[0] for p in rest], [p[1] for p in rest], "o", color=OTHERS, label="other trials"
        )
    line = "-" if len(sweep.records["objectives"]) == 2 else ""
    axes.plot(
        [p[0] for p in front], [p[1] for p in front], f"o{line}", color=_FRONT, linewidth=1,
        markersize=7, label="the front",
    )  # fmt: skip
    for px, py, number in front[:_MOST_NAMED]:
        axes.annotate(
            str(number), (px, py), xytext=(0, 7), textcoords="offset points", ha="center",
            fontsize=9, color=INK, path_effects=halo(),
        )  # fmt: skip
    spread_axis(axes, "x", [p[0] for p in [*front, *rest]])
    axes.set_xlabel(x["about"])
    axes.set_ylabel(y["about"])
    axes.margins(x=0.08, y=0.15)


def _history(sweep: Sweep) -> Plot:
    """One objective: each trial's value, and the best so far."""
    objective = sweep.records["objectives"][0]
    trials = sweep.complete
    values = [trial["values"][objective["name"]] for trial in trials]
    numbers = [trial["number"] for trial in trials]
    better = max if objective["larger"] else min
    best = [better(values[: place + 1]) for place in range(len(values))]
    with drawing():
        figure = new_figure(3.4)
        axes = figure.subplots()
        axes.plot(numbers, values, "o", color=OTHERS, label="trials")
        axes.step(numbers, best, where="post", color=_FRONT, label="best so far")
        axes.set_xlabel("trial")
        axes.set_ylabel(objective["about"])
        legend_below(figure, [axes])
    caption = "The objective of every complete trial, in the order in which they were drawn."
    return Plot("front", "The objective over trials", caption, figure)


def importance_plot(sweep: Sweep) -> Plot:
    """Bars by setting, one for each objective."""
    importance: dict[str, dict[str, float]] = sweep.records["importance"]
    if not importance:
        raise Missing("it is worked out at a sweep's end, from four complete trials on")
    names = list(dict.fromkeys(name for of in importance.values() for name in of))
    names.sort(key=lambda name: -sum(of.get(name, 0.0) for of in importance.values()))
    height = 0.8 / len(importance)
    with drawing():
        figure = new_figure(1.3 + 0.28 * len(names) * max(1, len(importance)) ** 0.6)
        axes = figure.subplots()
        for place, (objective, of) in enumerate(importance.items()):
            rows = [row + (place - (len(importance) - 1) / 2) * height for row in range(len(names))]
            shares = [100 * of.get(name, 0.0) for name in names]
            axes.barh(rows, shares, height, color=_BAR[place % len(_BAR)], label=objective)
        axes.set_yticks(range(len(names)), names)
        axes.set_xlabel("% of the variance")
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        legend_below(figure, [axes])
    caption = (
        "How much of the difference between trials each setting explains (fANOVA, over complete "
        "trials); share_a is the share of clients at level a. Few trials say little."
    )
    return Plot("importance", "How much each setting matters", caption, figure)


def coordinates_plot(sweep: Sweep) -> Plot:
    """Parallel coordinates: settings, then objectives; colours go by the first objective."""
    trials = sweep.complete
    if len(trials) < 2:
        raise Missing("fewer than two trials are complete")
    objectives = [each["name"] for each in sweep.records["objectives"]]
    columns = _columns(trials, objectives)
    first = sweep.records["objectives"][0]
    ranked = sorted(trials, key=lambda t: t["values"][first["name"]], reverse=not first["larger"])
    shades = colormaps["viridis"].resampled(max(2, len(trials)))
    front = set(sweep.records["front"])
    with drawing():
        figure = new_figure(4.4, width=max(5.9, 1.15 * len(columns)))
        axes = figure.subplots()
        for place, trial in enumerate(ranked):
            on_front = trial["number"] in front
            heights = [column[trials.index(trial)] for column, _ in columns.values()]
            axes.plot(
                range(len(columns)), heights, color=shades(place),
                linewidth=1.8 if on_front else 0.8, alpha=1.0 if on_front else 0.5,
            )  # fmt: skip
        for place, (_, marks) in enumerate(columns.values()):
            axes.axvline(place, color=FAINT, linewidth=0.8, zorder=0)
            for height, text in marks.items():
                axes.annotate(
                    text, (place, height), xytext=(4, 0), textcoords="offset points",
                    fontsize=8, va="center", path_effects=halo(),
                )  # fmt: skip
        axes.set_xticks(range(len(columns)), list(columns), rotation=30, ha="right")
        axes.set_yticks([])
        axes.grid(visible=False)
        axes.spines["left"].set_visible(False)
        axes.set_xlim(-0.1, len(columns) - 0.4)
    caption = (
        f"One line for each complete trial, from its settings to its objectives; brighter is "
        f"better in {first['name']}, thick lines are on the front."
    )
    return Plot("coordinates", "All trials", caption, figure)


Column = tuple[list[float], dict[float, str]]
"""Heights between 0 and 1, one a trial, and what stands at some of them."""


def _columns(trials: Sequence[Trial], objectives: Sequence[str]) -> dict[str, Column]:
    found = {}
    for name in trials[0]["features"]:
        values = [trial["features"][name] for trial in trials]
        if len(set(map(repr, values))) > 1:
            found[name] = _column(values)
    for name in objectives:
        found[name] = _column([trial["values"][name] for trial in trials])
    return found


def _column(values: Sequence[Any]) -> Column:
    numbers = [v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)]
    if len(numbers) == len(values):
        low, high = min(numbers), max(numbers)
        width = high - low or 1.0
        marks = {0.0: brief(low), 1.0: brief(high)} if high > low else {0.0: brief(low)}
        return [(v - low) / width for v in numbers], marks
    kinds = sorted({str(value) for value in values})
    step = 1 / max(1, len(kinds) - 1)
    return (
        [kinds.index(str(value)) * step for value in values],
        {place * step: kind for place, kind in enumerate(kinds)},
    )
