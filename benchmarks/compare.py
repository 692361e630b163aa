"""Has something become slower? A run's figures against those recorded on the same machine.

A figure has become worse when its median is more than a tenth worse than the recorded one (more
than its own tolerance, where runs of the same code differ by as much) **and** the repeats' spread
does not explain it: even the best repeat of this run is worse than the recorded median, and this
run's median is worse than the worst recorded repeat. Two runs of the same code on a busy machine
differ in their medians, but seldom in both of these. A figure of a single repeat has no spread to
be excused by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.measure import Figure, shown


def regressions(figures: Sequence[Figure], kept: Mapping[str, Any]) -> list[str]:
    """A line for each figure that has become worse than in ``kept`` (themes' recorded results)."""
    recorded = {name: entry for part in kept.values() for name, entry in part["ratios"].items()}
    return [
        f"{figure.name}: {shown(figure.median)} ({figure.spread}), "
        f"recorded {shown(before['median'])} ({shown(before['low'])} to {shown(before['high'])})"
        for figure in figures
        if (before := recorded.get(figure.name)) is not None and worse(figure, before)
    ]


def worse(figure: Figure, before: Mapping[str, Any]) -> bool:
    """Whether a figure is worse than its record by more than it may be, and than by chance."""
    # turned so that more is better
    sign = -1 if figure.lower_is_better else 1
    now, then = [sign * v for v in figure.values], [sign * v for v in before["repeats"]]
    median, recorded = sign * figure.median, sign * float(before["median"])
    if median >= recorded - figure.tolerance * abs(recorded):
        return False
    return max(now) < recorded and median < min(then)
