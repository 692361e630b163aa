"""The tables of a report, as plain texts: what was run, what came out, what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heterofl_ray.reporting.comparison import Comparison
from heterofl_ray.reporting.runs import Missing, Run
from heterofl_ray.reporting.savings import savings

NONE = "–"


@dataclass(frozen=True)
class Table:
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    swatches: Sequence[str] = ()
    """A colour for each row, as its line has in the figures; empty: none."""


def facts(run: Run) -> list[tuple[str, str]]:
    """One run in words, from what it was given to what came out."""
    config, mix = run.config, run.config.levels
    shares = ", ".join(
        f"{level.name} {100 * share:.3g} %"
        for level, share in zip(mix.levels, mix.shares, strict=True)
    )
    found = [
        ("data", f"{config.data}, {config.partition}"),
        ("model", config.model),
        ("mix", f"{config.mix}: {shares}; {config.assignment}, shrink {config.shrink:g}"),
        ("method", config.method),
        ("length", progress_text(run)),
        ("clients", f"{config.cohort_size} of {config.clients} in a round"),
        ("seed", str(config.seed)),
        ("global score", score_text(run)),
        ("local score", _score(run, run.score("local"), True)),
        ("average client", average_text(run)),
        ("moved", moved_text(run)),
        ("saved", saved_text(run)),
        ("time", time_text(run)),
        ("model_sha256", str(run.summary.get("model_sha256", ""))),
        ("folder", str(run.folder)),
    ]
    return [(name, value) for name, value in found if value and value != NONE]


def progress_text(run: Run) -> str:
    if run.finished:
        return "1 round" if run.rounds == 1 else f"{run.rounds} rounds"
    return f"unfinished, {run.rounds} of {run.config.rounds} rounds"


def score_text(run: Run) -> str:
    last, best = run.score(), run.best
    if run.metric is None or last is None:
        return NONE
    text = f"{run.metric.name} {run.metric.text(last)}"
    if best is not None and best[1] != last:
        text += f"; best {run.metric.text(best[1])} in round {best[0]}"
    return text


def average_text(run: Run) -> str:
    if not has_costs(run):
        return NONE
    costs = run.average_costs()
    return (
        f"{costs.parameters:,.0f} parameters, {costs.space_mb:.3g} MB, "
        f"{costs.flops:,.0f} FLOPs for an example forward"
    )


def moved_text(run: Run) -> str:
    if not run.has("megabytes_down"):
        return NONE
    down, up = (sum(run.column(name)) for name in ("megabytes_down", "megabytes_up"))
    back = "as much" if up == down else f"{up:,.2f} MB"
    return f"{down:,.2f} MB to clients, {back} back"


def saved_text(run: Run) -> str:
    try:
        saved = savings(run)
    except Missing:
        return NONE
    return (
        f"{percent(1 - saved.bytes_share)} of bytes and {percent(1 - saved.flops_share)} of FLOPs "
        "against all clients training the largest level"
    )


def time_text(run: Run) -> str:
    if not run.seconds:
        return NONE
    each = f", {run.seconds / run.rounds:.3g} s a round" if run.rounds else ""
    return duration(run.seconds) + each


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def overview(compared: Comparison) -> Table:
    """A row for each of several runs."""
    metrics = {run.metric.name for run in compared.runs if run.metric is not None}
    rows = []
    for entry in compared.entries:
        run = entry.run
        best = run.best
        row = [
            entry.label,
            progress_text(run),
            _score(run, run.score(), len(metrics) > 1),
            _score(run, None if best is None else best[1]),
            _score(run, run.score("local")),
            f"{run.average_costs().parameters:,.0f}" if has_costs(run) else NONE,
            f"{sum(run.column('megabytes_down')):,.1f}" if run.has("megabytes_down") else NONE,
            duration(run.seconds) if run.seconds else NONE,
            run.name,
        ]
        rows.append(row)
    score = metrics.pop() if len(metrics) == 1 else "score"
    headings = [
        compared.title or "run", "length", score, "best", "local", "average parameters",
        "MB to clients", "time", "folder",
    ]  # fmt: skip
    return Table(headings, rows, [entry.line.colour for entry in compared.entries])


def _score(run: Run, value: float | None, named: bool = False) -> str:
    if run.metric is None or value is None:
        return NONE
    return (f"{run.metric.name} " if named else "") + run.metric.text(value)


def has_costs(run: Run) -> bool:
    try:
        run.costs()
    except Missing:
        return False
    return True


def levels_table(run: Run) -> Table:
    """What each level costs, how often it was trained and how it scored."""
    costs, scores, updates = run.costs(), run.level_scores(), run.updates()
    total = sum(updates.values())
    rows = []
    for level in run.config.levels.levels:
        score, count = scores.get(level.name), updates[level.name]
        rows.append(
            [
                level.name,
                f"{level.rate:g}",
                f"{costs[level.name].parameters:,.0f}",
                f"{costs[level.name].flops:,.0f}",
                f"{costs[level.name].space_mb:.3f}",
                f"{count:,}" + (f" ({percent(count / total)})" if total else ""),
                NONE if score is None or run.metric is None else run.metric.text(score),
            ]
        )
    name = run.metric.name if run.metric is not None else "score"
    return Table(["level", "rate", "parameters", "FLOPs", "MB", "client-updates", name], rows)


def savings_table(compared: Comparison) -> Table:
    """Exact figures behind the bars."""
    rows = []
    for entry in compared.entries:
        try:
            saved = savings(entry.run)
        except Missing:
            continue
        about = "" if saved.megabytes_exact else "about "
        rows.append(
            [
                entry.label,
                f"{saved.updates:,}",
                f"{saved.megabytes:,.2f}",
                f"{about}{saved.megabytes_large:,.2f}",
                f"{about}{percent(1 - saved.bytes_share)}",
                f"{saved.flops:,.0f}",
                f"{saved.flops_large:,.0f}",
                percent(1 - saved.flops_share),
            ]
        )
    headings = [
        compared.title or "run", "client-updates", "MB each way", "all-large", "saved",
        "FLOPs an example", "all-large", "saved",
    ]  # fmt: skip
    return Table(headings, rows)
