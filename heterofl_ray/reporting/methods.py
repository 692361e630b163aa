"""Methods side by side: each one's figures over its runs, which differ in their seeds alone."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from heterofl_ray.reporting.runs import Metric, Missing, Run
from heterofl_ray.reporting.style import FAINT, INK, Plot, drawing, legend_below, new_figure

FIGURES = ("global", "local", "client_parameters", "gflops", "megabytes", "seconds")
_COLOURS = {"global": "#0072b2", "local": "#e69f00"}


@dataclass(frozen=True)
class Measured:
    """A figure of several runs."""

    values: Sequence[float]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def spread(self) -> float | None:
        """The sample's standard deviation; None: one run has none."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


@dataclass(frozen=True)
class MethodRuns:
    """One method's runs."""

    name: str
    runs: Sequence[Run]

    @property
    def metric(self) -> Metric:
        metric = self.runs[0].metric
        if metric is None:
            raise Missing(f"{self.name} was not tested")
        return metric

    @property
    def note(self) -> str | None:
        """Why its scores are not quite those of the others; None: they are."""
        config = self.runs[0].config
        if not config.participants:
            return None
        return (
            f"{len(config.participants)} participants with models of their own, tested on their "
            "private classes alone; FLOPs and MB are of the rounds, without what comes before them"
        )

    def measured(self, figure: str) -> Measured | None:
        """One of `FIGURES`; None where a run does not have it."""
        values = [_figure(run, figure) for run in self.runs]
        known = [value for value in values if value is not None]
        return Measured(known) if len(known) == len(values) else None


def _figure(run: Run, name: str) -> float | None:
    match name:
        case "global" | "local":
            return run.score(name)
        case "client_parameters":
            return client_parameters(run)
        case "gflops":
            return sum(run.column("client_gflops")) if run.has("client_gflops") else None
        case "megabytes":
            return float(run.summary["megabytes_down"] + run.summary["megabytes_up"])
        case _:
            return run.seconds


def client_parameters(run: Run) -> float | None:
    """Parameters that a client trained, the mean over all client-updates of the run."""
    updates = run.updates()
    total = sum(updates.values())
    try:
        costs = run.costs()
    except Missing:
        return None
    if not total:
        return None
    return sum(count * costs[level].parameters for level, count in updates.items()) / total


def methods_plot(rows: Sequence[MethodRuns]) -> Plot:
    """Every method's scores: a dot for each run, the mean, and the spread around it."""
    metric = rows[0].metric
    kinds = [kind for kind in ("global", "local") if any(row.measured(kind) for row in rows)]
    with drawing():
        figure = new_figure(1.35 + 0.45 * len(rows))
        axes = figure.subplots()
        for kind, offset in zip(kinds, (-0.15, 0.15), strict=False):
            found = [(place, row.measured(kind)) for place, row in enumerate(rows)]
            points = [(place + offset, each) for place, each in found if each is not None]
            for place, each in points:
                dots = list(each.values)
                axes.plot(dots, [place] * len(dots), "o", color=FAINT, markersize=2.5, zorder=3)
            axes.errorbar(
                [each.mean for _, each in points], [place for place, _ in points],
                xerr=[each.spread or 0.0 for _, each in points],
                fmt="o", color=_COLOURS[kind], ecolor=INK, elinewidth=1, capsize=3, markersize=7,
                label=f"{kind} score",
            )  # fmt: skip
        axes.set_yticks(range(len(rows)), [row.name for row in rows])
        axes.set_xlabel(metric.name + (", %" if metric.unit else ""))
        axes.invert_yaxis()
        axes.margins(x=0.06)
        legend_below(figure, [axes])
    caption = (
        "The last scores: the mean over seeds, one standard deviation to each side, and a small "
        "dot for each seed."
    )
    return Plot("methods", "Methods", caption, figure)
