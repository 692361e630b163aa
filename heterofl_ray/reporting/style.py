"""How figures look, and how they become files and parts of a page.

Figures are made with matplotlib's objects alone. Inks that must follow a page's light or dark
scheme have fixed values here, which the inlined SVG swaps for the page's own.
"""

from __future__ import annotations

import io
import math
import re
import string
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
from matplotlib import colormaps
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patheffects import AbstractPathEffect, withStroke
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from heterofl_ray.mixes import Mix

INK, FAINT, GRID, PAPER = "#22303c", "#6b7883", "#d5dbe0", "#ffffff"
_PAGE_INKS = {
    INK: "currentColor",
    FAINT: "var(--faint)",
    GRID: "var(--grid)",
    PAPER: "var(--paper)",
}
WIDTH = 5.9
"""Inches: narrow, so that letters stay readable when a phone scales the figure down."""

# Okabe and Ito's colours for levels, Tol's for runs: told apart by all eyes, on white and on black,
# and a level is never taken for a run.
_LEVELS = ("#0072b2", "#009e73", "#e69f00", "#d55e00", "#cc79a7", "#56b4e9", "#8d7b3f")
_RUNS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
_MARKERS = ("o", "s", "^", "D", "v", "P")
_DASHES = ("-", "--")
OTHERS = "#a9b2ba"
TELLABLE = len(_RUNS) * len(_DASHES)
"""Runs that have a colour and a dash of their own; of more, the best ones have."""

_STYLE: dict[Any, Any] = {
    "font.size": 10.5,
    "axes.titlesize": 11,
    "axes.labelsize": 10.5,
    "legend.fontsize": 9.5,
    "legend.title_fontsize": 9.5,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.edgecolor": FAINT,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "figure.facecolor": PAPER,
    "axes.facecolor": "none",
    "text.parse_math": False,  # a dollar in a name is a dollar
    "svg.hashsalt": "heterofl-ray",  # the same runs give the same bytes
}


@dataclass(frozen=True)
class Plot:
    """A finished figure: its file name, what it shows and how to read it."""

    name: str
    title: str
    caption: str
    figure: Figure

    def __post_init__(self) -> None:
        with drawing():
            self.figure.draw_without_rendering()
        self.figure.set_layout_engine("none")  # laid out once, for every format

    @cached_property
    def svg(self) -> str:
        target = io.StringIO()
        with drawing():
            self.figure.savefig(target, format="svg", metadata={"Date": None})
        return target.getvalue()

    def save(self, folder: Path, formats: Sequence[str]) -> None:
        if "svg" in formats:
            (folder / f"{self.name}.svg").write_text(self.svg, encoding="utf-8")
        if "png" in formats:
            with drawing():
                self.figure.savefig(folder / f"{self.name}.png", format="png", dpi=160)

    def inline(self) -> str:
        """The figure as an SVG element that takes its inks from the page around it."""
        text = self.svg[self.svg.index("<svg") :]
        text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
        # Names are the document's, not the figure's: two figures must not share any.
        text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{self.name}-", text)
        for ink, of_page in _PAGE_INKS.items():
            text = text.replace(ink, of_page)
        opening = re.compile(r"<svg [^>]*?(viewBox=\"[^\"]*\")[^>]*>", re.DOTALL)
        label = escape(f"{self.title}. {self.caption}", quote=True)
        return opening.sub(
            lambda match: f'<svg {match[1]} role="img" aria-label="{label}">', text, count=1
        )


@contextmanager
def drawing() -> Iterator[None]:
    """The look that holds while a figure is made or written."""
    with mpl.rc_context(_STYLE):
        yield


def new_figure(height: float, width: float = WIDTH) -> Figure:
    figure = Figure(figsize=(width, height))
    figure.set_layout_engine("constrained", w_pad=0.09, h_pad=0.09)
    FigureCanvasAgg(figure)
    return figure


@dataclass(frozen=True)
class Line:
    """How one run is drawn, in every figure alike."""

    colour: str
    marker: str
    dash: str
    named: bool
    """Whether it has a place in legends."""


def run_lines(ranks: Sequence[int]) -> list[Line]:
    """A line for each run. Of more than can be told apart, those of the first ranks get colours."""
    lines = []
    for index, rank in enumerate(ranks):
        place = index if len(ranks) <= TELLABLE else rank
        if place >= TELLABLE:
            lines.append(Line(OTHERS, "o", "-", named=False))
            continue
        second = place // len(_RUNS)
        kind = place % len(_RUNS)
        lines.append(Line(_RUNS[kind], _MARKERS[(kind + 3 * second) % 6], _DASHES[second], True))
    return lines


def level_colours(mix: Mix) -> dict[str, str]:
    """Level a has the same colour in every report; levels named by rates go by their order."""
    if len(mix.levels) > len(_LEVELS):
        shades = colormaps["viridis"].resampled(len(mix.levels))
        return {level.name: to_hex(shades(place)) for place, level in enumerate(mix.levels)}
    colours = {}
    for place, level in enumerate(mix.levels):
        index = string.ascii_lowercase.index(level.name) if level.name.isalpha() else place
        colours[level.name] = _LEVELS[index % len(_LEVELS)]
    return colours


def levels_in_legend(mix: Mix) -> set[str]:
    """All levels, or a few from the largest to the smallest where there are many."""
    step = max(1, len(mix.levels) // len(_LEVELS))
    return {level.name for level in mix.levels[::step]}


def dot(rounds: Sequence[int], size: float) -> float:
    """A marker's size; a single round has no line, so its marker must be seen."""
    return size if len(rounds) > 1 else 7.0


def rounds_axis(axes: Axes, rounds: Sequence[int]) -> None:
    """Whole rounds only, from the first on; a single one stands in the middle."""
    axes.set_xlabel("round")
    axes.xaxis.set_major_locator(
        MaxNLocator(nbins=8, integer=True, min_n_ticks=1, steps=[1, 2, 5, 10])
    )
    if rounds and min(rounds) == max(rounds):
        axes.set_xlim(rounds[0] - 2, rounds[0] + 2)
        axes.set_xticks([rounds[0]])
    elif rounds:
        room = 0.6 + 0.02 * (max(rounds) - min(rounds))
        axes.set_xlim(max(0.3, min(rounds) - room), max(rounds) + room)


def spread_axis(axes: Axes, side: Literal["x", "y"], values: Sequence[float]) -> None:
    """A logarithmic axis where values differ by much, with numbers people read."""
    axis = axes.xaxis if side == "x" else axes.yaxis
    axis.set_major_formatter(FuncFormatter(lambda value, _: brief(value)))
    if not values or min(values) <= 0 or max(values) < 3 * min(values):
        return
    scale = axes.set_xscale if side == "x" else axes.set_yscale
    scale("log")
    decades = math.log10(max(values) / min(values))
    subs = (1, 2, 5) if decades < 2 else (1, 3) if decades < 4 else (1,)
    axis.set_major_locator(LogLocator(subs=subs, numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: brief(value)))
    axis.set_minor_formatter(NullFormatter())


def row_label(text: str) -> str:
    """A label at the left of a row: two lines at most, so that the picture keeps its room."""
    lines = textwrap.wrap(text, 26)
    return "\n".join(lines if len(lines) <= 2 else [lines[0], "…" + lines[-1]])


def brief(value: float) -> str:
    """1250000 as '1.25 M', 0.5 as '0.5'."""
    for limit, unit in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


def halo() -> list[AbstractPathEffect]:
    """Keeps a text readable where it crosses a line."""
    return [withStroke(linewidth=3, foreground=PAPER)]


def legend_below(figure: Figure, panels: Sequence[Axes], title: str = "") -> None:
    """Under the figure, where it covers nothing, in as many columns as its texts allow."""
    entries: dict[str, Artist] = {}
    for axes in panels:
        handles, texts = axes.get_legend_handles_labels()
        entries |= dict(zip(texts, handles, strict=True))
    if len(entries) < 2:
        return
    figure.legend(
        list(entries.values()), list(entries), loc="outside lower center",
        ncols=legend_columns(list(entries)), title=title or None, handlelength=2.2,
        columnspacing=1.4,
    )  # fmt: skip


def legend_columns(texts: Sequence[str]) -> int:
    return max(1, min(len(texts), 74 // (max(map(len, texts)) + 6)))
