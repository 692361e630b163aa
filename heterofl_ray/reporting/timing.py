"""Where the time went: training, tests and the rest, and what clients of each level took."""

from __future__ import annotations

from heterofl_ray.reporting.comparison import Comparison
from heterofl_ray.reporting.runs import Missing, Run
from heterofl_ray.reporting.style import (
    Plot,
    drawing,
    legend_below,
    level_colours,
    new_figure,
    rounds_axis,
    row_label,
)

PARTS = {"train": "#0072b2", "test": "#e69f00", "other": "#8a949c"}
_UNDIVIDED = "#8a949c"


def time_spent(compared: Comparison) -> Plot:
    if not any(run.has("seconds") for run in compared.runs):
        raise Missing("no round is kept yet")
    with drawing():
        if compared.single is not None:
            return _of_one(compared.single)
        return _of_several(compared)


def parts_of(run: Run) -> dict[str, float]:
    """Seconds of the whole run by what they were spent on; one part where that is not known."""
    if run.has("seconds_train"):
        return {part: sum(run.column(f"seconds_{part}")) for part in PARTS}
    return {"all": sum(run.column("seconds"))}


def client_seconds(run: Run) -> dict[str, float]:
    """Seconds that clients of each level trained, over all rounds."""
    return {
        level.name: sum(run.column(f"seconds_{level.name}"))
        for level in run.config.levels.levels
        if run.has(f"seconds_{level.name}")
    }


def _client_text(run: Run, level: str, seconds: float) -> str:
    """'12 s, 0.31 s each'; without the second part where it is not known whose were rejected."""
    count = run.updates()[level]
    if not count or any(run.column("rejected")):
        return f"{seconds:.3g} s"
    return f"{seconds:.3g} s, {seconds / count:.2g} s each"


def _of_one(run: Run) -> Plot:
    by_level = client_seconds(run)
    heights = [3.3, 0.7 + 0.26 * len(by_level)] if by_level else [3.3]
    figure = new_figure(sum(heights))
    panels = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    axes = panels[0]
    width = 1.0 if run.rounds > 60 else 0.8
    if run.has("seconds_train"):
        below = [0.0] * len(run.columns["round"])
        for part, colour in PARTS.items():
            values = [value or 0.0 for value in run.columns.get(f"seconds_{part}", below)]
            axes.bar(run.columns["round"], values, width, bottom=below, color=colour, label=part)
            below = [low + value for low, value in zip(below, values, strict=True)]
    else:
        curve = run.curve("seconds")
        axes.bar(curve.rounds, curve.values, width, color=_UNDIVIDED)
    axes.set_ylabel("seconds")
    axes.grid(visible=False, axis="x")
    rounds_axis(axes, run.curve("seconds").rounds)
    handles, _ = axes.get_legend_handles_labels()
    if handles:
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.2)
    caption = "Seconds of each round."
    if not run.has("seconds_train"):
        caption += " This run's history does not divide them into training and tests."
    if by_level:
        colours = level_colours(run.config.levels)
        bars = panels[1].barh(
            list(by_level), list(by_level.values()), color=[colours[name] for name in by_level]
        )
        texts = [_client_text(run, level, seconds) for level, seconds in by_level.items()]
        panels[1].bar_label(bars, texts, padding=3, fontsize=9)
        panels[1].set_xlabel("seconds of clients' training, all rounds")
        panels[1].set_ylabel("level")
        panels[1].set_ylim(len(by_level) - 0.4, -0.6)
        panels[1].margins(x=0.34)
        panels[1].grid(visible=False, axis="y")
        caption += " Below, what the clients of each level took together."
    return Plot("time", "Where the time went", caption, figure)


def _of_several(compared: Comparison) -> Plot:
    entries = [entry for entry in compared.rows if entry.run.has("seconds")]
    figure = new_figure(1.3 + 0.36 * len(entries))
    axes = figure.subplots()
    colours = PARTS | {"all": _UNDIVIDED}
    for place, entry in enumerate(entries):
        start = 0.0
        for part, seconds in parts_of(entry.run).items():
            label = "not divided" if part == "all" else part
            axes.barh(place, seconds, 0.7, left=start, color=colours[part], label=label)
            start += seconds
    axes.set_yticks(range(len(entries)), [row_label(entry.label) for entry in entries])
    axes.invert_yaxis()
    axes.set_xlabel("seconds over all rounds")
    axes.set_ylabel(compared.title)
    axes.grid(visible=False, axis="y")
    legend_below(figure, [axes])
    caption = "Seconds of all rounds that were done."
    return Plot("time", "Where the time went", caption, figure)
