"""How often each part of the global model was trained.

A level trains the leading channels of every layer, so a layer falls into bands: what every level
trains, then what only larger ones do. A band's coverage is the share of client-updates that held
it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize

from heterofl_ray.mixes import Level, Mix
from heterofl_ray.models import registry
from heterofl_ray.models.layout import Channels, Layout
from heterofl_ray.models.spec import ModelSpec
from heterofl_ray.reporting.comparison import Comparison, priced
from heterofl_ray.reporting.runs import Missing, Run
from heterofl_ray.reporting.style import PAPER, Plot, drawing, new_figure, row_label
from heterofl_ray.submodels.depth import is_top

_SHADES = LinearSegmentedColormap.from_list(
    "coverage", [colormaps["YlGnBu"](0.1 + 0.72 * step / 20) for step in range(21)]
)


@dataclass(frozen=True)
class Band:
    """A range of a layer's relative width and the share of updates that trained it."""

    start: float
    stop: float
    share: float


@dataclass(frozen=True)
class LayerCoverage:
    name: str
    parameters: int
    bands: Sequence[Band]
    mean: float
    """Share of updates that trained a parameter, mean over the layer's parameters."""


def coverage(run: Run) -> list[LayerCoverage]:
    """Every layer's coverage over the rounds done, in the model's order."""
    spec = run.known_spec
    updates = run.updates()
    if not sum(updates.values()):
        raise Missing(f"{run.name} has no client-updates in its history yet")
    mix = run.config.levels
    layouts = {level.name: _of_the_global_model(spec, level, mix) for level in mix.levels}
    return layer_coverage(layouts, updates)


def _of_the_global_model(spec: ModelSpec, level: Level, mix: Mix) -> Layout:
    """What a level trains of the global model: a shallow sub-model's top is its own."""
    layout = registry.layout(spec.at(level), level.rate)
    if level.depth == mix.largest.depth:
        return layout
    places = registry.places(spec.at(level), level.rate)
    return {
        name: axes for name, axes in layout.items() if not is_top(places.get(name), level.depth)
    }


def layer_coverage(
    layouts: Mapping[str, Layout], updates: Mapping[str, int]
) -> list[LayerCoverage]:
    """The same from layouts, the largest level first, and each level's client-updates."""
    outer = next(iter(layouts.values()))
    layers: dict[str, list[str]] = {}
    for parameter in outer:
        layers.setdefault(parameter.rpartition(".")[0] or parameter, []).append(parameter)
    total = sum(updates.values())
    found = []
    for layer, names in layers.items():
        size = sum(_numel(outer, name) for name in names)
        trained = sum(
            count * sum(_numel(layouts[level], name) for name in names)
            for level, count in updates.items()
        )
        bands = _bands(layouts, updates, names[0])
        found.append(LayerCoverage(layer, size, bands, trained / (total * size)))
    return found


def whole_model(layers: Sequence[LayerCoverage], name: str) -> LayerCoverage:
    """All layers as one row: the bands of the widest layer, the mean over all parameters."""
    size = sum(layer.parameters for layer in layers)
    widest = max(layers, key=lambda layer: (len(layer.bands), layer.parameters))
    mean = sum(layer.mean * layer.parameters for layer in layers) / size
    return LayerCoverage(name, size, widest.bands, mean)


def _numel(layout: Layout, parameter: str) -> int:
    return math.prod(axis.width for axis in layout[parameter]) if parameter in layout else 0


def _bands(layouts: Mapping[str, Layout], updates: Mapping[str, int], parameter: str) -> list[Band]:
    """Bands along the first axis that is cut; every head is cut alike, so one stands for all."""
    outer = next(iter(layouts.values()))
    cut = next(
        (place for place, axis in enumerate(outer[parameter]) if isinstance(axis, Channels)), None
    )
    total = sum(updates.values())
    if cut is None:
        return [Band(0.0, 1.0, 1.0)]
    full = outer[parameter][cut].width
    widths = {
        level: layout[parameter][cut].width / full if parameter in layout else 0.0
        for level, layout in layouts.items()
    }
    edges = sorted({0.0, *widths.values()})
    return [
        Band(
            start,
            stop,
            sum(count for level, count in updates.items() if widths[level] >= stop) / total,
        )
        for start, stop in pairwise(edges)
    ]


def coverage_plot(compared: Comparison) -> Plot:
    """A row for each layer of one run, or for each run as a whole."""
    run = compared.single
    if run is not None:
        rows = coverage(run)
        axis_label = ""
    else:
        rows = [
            whole_model(coverage(entry.run), entry.label)
            for entry in priced(compared.rows)
            if any(entry.run.updates().values())
        ]
        axis_label = compared.title
    if not rows:
        raise Missing("no round is kept yet")
    with drawing():
        figure = new_figure(1.5 + (0.24 if run is not None else 0.34) * len(rows))
        axes, means = figure.subplots(
            1, 2, sharey=True, gridspec_kw={"width_ratios": [3.2, 1], "wspace": 0.04}
        )
        for place, row in enumerate(rows):
            axes.broken_barh(
                [(100 * band.start, 100 * (band.stop - band.start)) for band in row.bands],
                (place - 0.41, 0.82),
                facecolors=[_SHADES(band.share) for band in row.bands],
                edgecolor=PAPER,
                linewidth=0.6,
            )
        bars = means.barh(
            range(len(rows)), [100 * row.mean for row in rows], 0.6,
            color=[_SHADES(row.mean) for row in rows],
        )  # fmt: skip
        means.bar_label(bars, [f"{100 * row.mean:.0f} %" for row in rows], padding=2, fontsize=8.5)
        axes.set_yticks(range(len(rows)), [row_label(row.name) for row in rows], fontsize=8.5)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(0, 100)
        axes.set_xlabel("channels, % of width")
        axes.set_ylabel(axis_label)
        means.set_xlim(0, 135)
        means.set_xticks([0, 50, 100])
        means.set_xlabel("mean, %")
        means.tick_params(axis="y", length=0)
        for panel in (axes, means):
            panel.grid(visible=False)
        axes.spines[["left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        scale = figure.colorbar(
            ScalarMappable(Normalize(0, 100), _SHADES), ax=[axes, means], location="top",
            aspect=40, fraction=0.05, pad=0.02,
        )  # fmt: skip
        scale.set_label("share of client-updates that trained it, %")
        scale.outline.set_visible(False)
    caption = (
        "Left, bands of each layer's channels, coloured by the share of client-updates that "
        "trained them. Right, the mean over the layer's parameters."
        if run is not None
        else "Left, bands of the channels of each run's model, coloured by the share of "
        "client-updates that trained them. Right, the mean over all its parameters."
    )
    if any(each.masks_labels for each in compared.runs):
        caption += " Rows of single labels are trained only by clients that hold the label."
    return Plot("coverage", "How often each part was trained", caption, figure)
