"""What a mix saved against the same cohorts all training its largest level.

Bytes are exact: parameters that went to each client, four bytes each. A text client holds only its
own words' rows; how many words clients of a level had follows from the bytes of that level where
the history has them, else they are taken to be alike at all levels. FLOPs are of one example
forward, averaged over client-updates; what a client's examples and epochs multiply is the same on
both sides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from heterofl_ray.models import registry
from heterofl_ray.models.layout import Labels
from heterofl_ray.models.spec import ModelSpec
from heterofl_ray.reporting.comparison import Comparison, priced
from heterofl_ray.reporting.runs import Missing, Run
from heterofl_ray.reporting.style import (
    FAINT,
    Plot,
    drawing,
    halo,
    legend_below,
    new_figure,
    row_label,
)

MEGABYTE = 1024**2


@dataclass(frozen=True)
class Savings:
    """Of one run; ``_large`` is what the same clients would have needed at the largest level."""

    updates: int
    """Client-updates that counted."""
    megabytes: float
    """Moved to the clients; the same came back."""
    megabytes_large: float
    megabytes_exact: bool
    flops: float
    """Of one example forward, mean over client-updates."""
    flops_large: float

    @property
    def bytes_share(self) -> float:
        return self.megabytes / self.megabytes_large

    @property
    def flops_share(self) -> float:
        return self.flops / self.flops_large


def savings(run: Run) -> Savings:
    costs, by_level = run.costs(), run.updates()
    updates = sum(by_level.values())
    if not updates or not run.has("megabytes_down"):
        raise Missing(f"{run.name} has no client-updates in its history yet")
    largest = run.config.levels.largest.name
    sent = updates + round(sum(run.column("rejected")))  # a rejected update was moved all the same
    megabytes = sum(run.column("megabytes_down"))
    large = sent * costs[largest].parameters * 4 / MEGABYTE
    exact = True
    if run.is_text and run.masks_labels and run.config.loss.sliced_vocabulary:
        large, exact = _sliced_large(run, by_level, sent, megabytes)
    return Savings(
        updates=updates,
        megabytes=megabytes,
        megabytes_large=large,
        megabytes_exact=exact,
        flops=sum(count * costs[level].flops for level, count in by_level.items()) / updates,
        flops_large=costs[largest].flops,
    )


def _sliced_large(
    run: Run, by_level: dict[str, int], sent: int, megabytes: float
) -> tuple[float, bool]:
    """Megabytes if all had trained the largest level on the words they have; whether exactly."""
    spec = run.known_spec
    sizes = {
        level.name: _by_words(spec.at(level), level.rate) for level in run.config.levels.levels
    }
    fixed, word = sizes[run.config.levels.largest.name]
    if sent == sum(by_level.values()) and all(
        run.has(f"megabytes_{level}") for level, count in by_level.items() if count
    ):
        words = 0.0
        for level, count in by_level.items():
            moved = sum(run.column(f"megabytes_{level}")) * MEGABYTE / 4
            words += (moved - count * sizes[level][0]) / sizes[level][1]
        return (sent * fixed + words * word) * 4 / MEGABYTE, True
    # One mean number of words explains all that was moved.
    scale = sent / sum(by_level.values())
    moved = megabytes * MEGABYTE / 4
    held = scale * sum(count * sizes[level][0] for level, count in by_level.items())
    per_word = scale * sum(count * sizes[level][1] for level, count in by_level.items())
    mean_words = (moved - held) / per_word
    exact = len([count for count in by_level.values() if count]) == 1
    return sent * (fixed + mean_words * word) * 4 / MEGABYTE, exact


def _by_words(spec: ModelSpec, rate: float) -> tuple[int, int]:
    """Parameters that every client of a level holds, and those for each word it has."""
    fixed = word = 0
    for axes in registry.layout(spec, rate).values():
        labels = [axis for axis in axes if isinstance(axis, Labels)]
        rest = math.prod(axis.width for axis in axes if not isinstance(axis, Labels))
        fixed += rest * math.prod(axis.extra for axis in labels)
        word += rest if labels else 0
    return fixed, word


def savings_plot(compared: Comparison) -> Plot:
    """Bytes and FLOPs in percent of all clients training the largest level."""

    def trained(run: Run) -> bool:
        return any(run.updates().values()) and run.has("megabytes_down")

    rows = [
        (entry.label, savings(entry.run)) for entry in priced(compared.rows) if trained(entry.run)
    ]
    if not rows:
        raise Missing("no round is kept yet")
    with drawing():
        figure = new_figure(1.35 + 0.5 * len(rows))
        axes = figure.subplots()
        for offset, colour, label, shares in (
            (-0.2, "#0072b2", "bytes moved", [saved.bytes_share for _, saved in rows]),
            (0.2, "#e69f00", "FLOPs", [saved.flops_share for _, saved in rows]),
        ):
            places = [place + offset for place in range(len(rows))]
            values = [100 * share for share in shares]
            bars = axes.barh(places, values, 0.36, color=colour, label=label)
            axes.bar_label(
                bars,
                [f"{value:.3g} %" for value in values],
                padding=3,
                fontsize=9,
                path_effects=halo(),
            )
        axes.axvline(100, color=FAINT, linewidth=1, linestyle="--", zorder=0)
        names = [row_label(label) for label, _ in rows]
        axes.set_yticks(range(len(rows)), names if len(rows) > 1 else [""])
        axes.set_ylabel(compared.title)
        axes.set_xlim(0, 114)
        axes.set_xlabel("% of all clients training the largest level")
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        legend_below(figure, [axes])
    caption = (
        "What was moved and computed, against the same cohorts all training the largest level of "
        "the mix. FLOPs are of one example forward, averaged over client-updates."
    )
    return Plot("savings", "Bytes and FLOPs against all-large", caption, figure)
