"""The job's settings, which both sides share."""

from __future__ import annotations

from typing import Any

CLIENTS, COHORT, EPOCHS, BATCH, LR = 100, 10, 5, 10, 0.01
RATE = 0.125
"""Of level d."""
STATISTICS_BATCH, TEST_BATCH = 100, 500


def settings(rounds: int) -> dict[str, Any]:
    """The simulator's, for a run of so many rounds."""
    return {
        "data": "mnist",
        "model": "conv",
        "mix": "d",
        "clients": CLIENTS,
        "fraction": COHORT / CLIENTS,
        "local_epochs": EPOCHS,
        "batch_size": BATCH,
        "lr": LR,
        "rounds": rounds,
        "evaluate_every": 1,
        "execution": {"workers": 2, "backend": "ray", "address": "local"},
    }
