"""What fits into an hour: a guess of each run's time, and the runs that can be had for it.

The guess counts steps and floating-point operations. How fast this machine does them is learnt
from a run that was done here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.models.costs import mix_costs, model_costs
from heterofl_ray.reproducing.plan import Piece, shortened

STEP = 1e-3
"""Seconds that a training step takes at least, on the machine that guesses are made for."""
RATE = 10e9
"""Floating-point operations that it does in a second."""
LEAST = 0.1
"""A run with a smaller part of its rounds says nothing about the paper's."""


@dataclass(frozen=True)
class Guess:
    """A run and the seconds it would take here."""

    piece: Piece
    seconds: float


@dataclass(frozen=True)
class Choice:
    """What is run in the time there is."""

    chosen: Sequence[Piece]
    shortened: dict[str, int]
    """Rounds of runs that are shorter than the paper's."""
    left_out: dict[str, float]
    """Names of runs that do not fit, with the minutes they would need."""


def fit(guesses: Sequence[Guess], seconds: float) -> Choice:
    """The cheapest first; the first that does not fit gets the rounds that do, if not too few."""
    chosen: list[Piece] = []
    fewer: dict[str, int] = {}
    left_out: dict[str, float] = {}
    for guess in sorted(guesses, key=lambda guess: guess.seconds):
        piece, rounds = guess.piece, guess.piece.config.rounds
        part = 1.0 if guess.seconds <= seconds else seconds / guess.seconds
        possible = math.floor(part * rounds + 1e-9)
        if left_out or possible < max(1, LEAST * rounds):
            left_out[piece.name] = guess.seconds / 60
            continue
        if possible < rounds:
            piece = replace(piece, config=shortened(piece.config, possible))
            fewer[piece.name] = possible
        chosen.append(piece)
        seconds -= guess.seconds * part
    return Choice(chosen, fewer, left_out)


def nominal_seconds(config: ExperimentConfig, root: Path) -> float:
    """The time of a whole run on the machine of `STEP` and `RATE`, on one of its cores."""
    bench = Workbench(config, root, torch.device("cpu"))
    mix = config.levels
    by_level = [model_costs(bench.spec.at(level), level.rate) for level in mix.levels]
    info = bench.data.dataset.info
    windows = config.text.window if info.kind == "text" else 1
    examples = info.train / windows / config.clients * config.local_epochs
    batch = 1 if info.kind == "text" else config.batch_size
    client = examples / batch * STEP + 3 * examples * mix_costs(mix, by_level).flops / RATE
    test = (info.train + info.test) / windows * by_level[0].flops / RATE  # and calibration
    tests = math.ceil(config.rounds / config.evaluate_every) if config.evaluate_every else 1
    return config.rounds * config.cohort_size * client + tests * test
