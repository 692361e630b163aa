"""FedAvg on our pool against a plain loop of two processes: rounds, start, memory."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.data import provide
from benchmarks.jobs import FEW_ROUNDS
from benchmarks.measure import Figure
from benchmarks.watch import Outcome, watch

NAME = "fedavg"
ABOUT = "FedAvg, the level-d CNN on MNIST: a Ray pool of 2 workers against 2 plain processes"

GIGABYTE = 1e9
ROUNDS = 200
"""The paper's, of which a few are run."""


def measure(quick: bool) -> list[Figure]:
    turns = (1,) if quick else (3, 2)  # five rounds of each side, by turns
    of = str(FEW_ROUNDS if quick else ROUNDS)
    faster: list[float] = []
    ours: list[Outcome] = []
    plain: list[Outcome] = []
    starts: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        source = provide("mnist", Path(folder), share=10 if quick else 1)
        print(f"  on {source} data", file=sys.stderr, flush=True)
        if not quick:
            # so that all is compiled that will be; a start like the others, as that comes after it
            starts.append(_start(watch("benchmarks.fedavg.ours", [folder, "1", of])))
        for rounds in turns:
            # one more round than counts: the first one warms up
            arguments = [folder, str(1 + rounds)]
            ours.append(watch("benchmarks.fedavg.ours", [*arguments, of]))
            plain.append(watch("benchmarks.fedavg.plain", arguments))
            starts.append(_start(ours[-1]))
            pairs = zip(
                plain[-1].printed["rounds"][1:], ours[-1].printed["rounds"][1:], strict=True
            )
            faster += [theirs / mine for theirs, mine in pairs]
            print(f"    {_said(ours[-1])}; plain: {_said(plain[-1])}", file=sys.stderr, flush=True)
    return [
        Figure(
            name="fedavg-round",
            about="seconds of a round of the plain loop / of ours",
            values=tuple(faster),
            at_least=None if quick else 2,
        ),
        Figure(
            name="fedavg-start",
            about="seconds from the start of our process to its first client's training",
            values=tuple(starts),
            at_most=8,
        ),
        Figure(
            name="fedavg-memory",
            about="peak gigabytes (PSS) of all our processes, Ray's among them",
            values=tuple(outcome.peak_bytes / GIGABYTE for outcome in ours),
            at_most=1.5,
        ),
        Figure(
            name="fedavg-start-against-plain",
            about="seconds to our first client / to the plain loop's",
            values=tuple(_start(a) / _start(b) for a, b in zip(ours, plain, strict=True)),
            less_is_better=True,
        ),
        Figure(
            name="fedavg-memory-against-plain",
            about="our peak memory / the plain loop's",
            values=tuple(a.peak_bytes / b.peak_bytes for a, b in zip(ours, plain, strict=True)),
            less_is_better=True,
        ),
    ]


def _start(outcome: Outcome) -> float:
    return float(outcome.printed["first_client"] - outcome.started)


def _said(outcome: Outcome) -> str:
    rounds = ", ".join(f"{taken:.1f}" for taken in outcome.printed["rounds"])
    gigabytes = outcome.peak_bytes / GIGABYTE
    return f"first client after {_start(outcome):.1f} s, rounds of {rounds} s, {gigabytes:.2f} GB"
