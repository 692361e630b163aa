"""What a soak was like, as figures with bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.measure import Figure, shown
from benchmarks.soak_faults import KINDS

LONGEST_SECONDS = 120
"""From a fault to the next round, whatever else is broken meanwhile."""


@dataclass
class Outcome:
    """What a soak was like."""

    seed: int = 0
    kinds: Sequence[str] = ()
    """Of faults that were asked for."""
    minutes: float = 0.0
    laps: int = 0
    rounds: int = 0
    equal: int = 0
    """Runs that ended with the bytes of the one without faults."""
    exact: int = 0
    """Runs of which MLflow has every metric once."""
    resumed: int = 0
    """Runs that ended on a full disk and were gone on with."""
    synced: int = 0
    """Runs of which the rest was sent by ``track sync``."""
    rebuilt: int = 0
    unwritten: int = 0
    """Times that checkpoints began to fail."""
    faults: dict[str, int] = field(default_factory=dict)
    recovery: list[float] = field(default_factory=list)
    """Seconds from each fault to the next round that was done."""
    log: list[dict[str, Any]] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether every figure keeps its bound."""
        return not missed(self)


def figures(outcome: Outcome) -> list[Figure]:
    """What is kept of it."""
    counts = {
        "seed": ("seed of the schedule of faults", outcome.seed),
        "minutes": ("minutes under faults", outcome.minutes),
        "runs": ("runs finished", outcome.laps),
        "rounds": ("rounds finished", outcome.rounds),
        "rebuilt": ("times that the parameter server was rebuilt", outcome.rebuilt),
        "unwritten": ("times that checkpoints began to fail", outcome.unwritten),
        "resumed": ("runs that ended on a full disk and were resumed", outcome.resumed),
    }
    plain = [
        Figure(name=f"soak-{name}", about=about, values=(float(value),))
        for name, (about, value) in counts.items()
    ]
    shares = {
        "equal": ("runs with the bytes of the one without faults / runs", outcome.equal),
        "exact": ("runs with every metric once in MLflow / runs", outcome.exact),
    }
    bounded = [
        Figure(name=f"soak-{name}", about=about, values=(value / max(1, outcome.laps),), at_least=1)
        for name, (about, value) in shares.items()
    ]
    every_kind = [
        Figure(
            name=f"soak-{kind}-faults",
            about=KINDS[kind],
            values=(float(outcome.faults.get(kind, 0)),),
            at_least=1,
        )
        for kind in outcome.kinds
    ]
    seconds = tuple(outcome.recovery) or (0.0,)
    recovery = Figure(
        name="soak-recovery",
        about="seconds from a fault to the next finished round",
        values=seconds,
        less_is_better=True,
    )
    longest = Figure(
        name="soak-longest",
        about="the most seconds from a fault to the next finished round",
        values=(max(seconds),),
        at_most=LONGEST_SECONDS,
    )
    return [*bounded, *plain, *every_kind, recovery, longest]


def missed(outcome: Outcome) -> list[str]:
    """Figures that do not keep their bounds, in words."""
    return [
        f"bound missed: {figure.name} is {shown(figure.median)}, should be {figure.bound}"
        for figure in figures(outcome)
        if not figure.holds
    ]
