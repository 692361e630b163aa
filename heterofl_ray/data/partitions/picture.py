"""A picture of a partition: a column for each client, its size above, its mix of classes below."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from heterofl_ray.data.partitions.partition import Integers
from heterofl_ray.data.partitions.statistics import Counts
from heterofl_ray.errors import ConfigError

SHOWN = 100
"""Clients in a picture; more could not be told apart."""

_TICKS = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0)
"""Shares on the colour bar; it ends with the first that no client exceeds."""

_INK, _BAR = "#333333", "#6b8fae"


def draw(path: Path, title: str, counts: Counts, sizes: Integers, classes: Sequence[str]) -> None:
    """Write the picture of the first clients as a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import PowerNorm
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    shown = min(len(sizes), SHOWN)
    population = f"{len(sizes):,} clients" + (
        f", first {shown} shown" if len(sizes) > shown else ""
    )
    width = max(6.5, 2.4 + (0.36 if shown <= 30 else 0.12) * shown)
    below = min(max(1.6, (0.3 if len(classes) <= 30 else 0.16) * len(classes)), 12.0)
    figure = Figure(figsize=(width, below + 2.3), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"{title}, {population}", color=_INK, fontsize=12)
    bars, cells = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [1.1, below]})

    first = sizes[:shown]
    bars.bar(np.arange(shown), first, width=0.8, color=_BAR)
    bars.set_ylabel("examples", color=_INK)
    if first.max() > 20 * first.min():  # or most bars could not be seen
        bars.set_yscale("log")
        bars.set_ylabel("examples, log", color=_INK)
        bars.set_ylim(bottom=max(0.5, 0.5 * first.min()))
        bars.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))

    seen = counts.clients < shown
    shares = np.full((len(classes), shown), np.nan)
    clients, labels = counts.clients[seen], counts.labels[seen]
    shares[labels, clients] = counts.examples[seen] / first[clients]
    top = next(tick for tick in _TICKS if tick >= np.nanmax(shares, initial=0) - 1e-12)
    edges_x, edges_y = np.arange(shown + 1) - 0.5, np.arange(len(classes) + 1) - 0.5
    mesh = cells.pcolormesh(
        edges_x,
        edges_y,
        shares,
        cmap="YlGnBu",
        norm=PowerNorm(0.5, vmin=0, vmax=top),  # small shares stay visible
        edgecolor="white",
        linewidth=0.8 if shown * len(classes) <= 2000 else 0.2,
    )
    named = range(0, len(classes), 1 + len(classes) // 80)
    cells.set_yticks(list(named), [classes[label] for label in named])
    cells.set_xlabel("client", color=_INK)
    cells.set_ylabel("class", color=_INK)
    cells.locator_params(axis="x", integer=True)
    cells.set_facecolor("#f4f4f4")
    scale = figure.colorbar(mesh, ax=[bars, cells], pad=0.01, aspect=25, fraction=0.04)
    scale.set_label("share of the client's examples", color=_INK)
    ticks = [tick for tick in _TICKS if 0.02 * top <= tick <= top]
    scale.set_ticks(ticks, labels=[f"{100 * tick:g} %" for tick in ticks])
    scale.ax.tick_params(labelsize=8, colors=_INK)
    for axes in (bars, cells):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=_INK, labelsize=8)
    bars.tick_params(axis="x", length=0)
    try:
        figure.savefig(path, dpi=120, format="png")
    except OSError as error:
        raise ConfigError.of(
            "--picture", str(path), f"cannot be written: {error.strerror}"
        ) from None
