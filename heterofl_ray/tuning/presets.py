"""Named sweeps: which shrink ratio, how many levels and which shares, on three data sets.

Each is what a YAML file would hold: an experiment's preset, changes to it, and the ``sweep`` group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_LEVELS: dict[str, Any] = {
    "shrink": {"low": 0.35, "high": 0.75},
    "levels": {"low": 1, "high": 5},
    "shares": {"drop": 0.05},
    "assignment": ["dynamic", "fix"],
}


def levels_digits() -> dict[str, Any]:
    """Short runs on embedded digits; the average client has 60 % of the FLOPs of all-large."""
    return {
        "preset": "digits-dynamic",
        "rounds": 10,
        "evaluate_every": 2,
        "sweep": {
            "objectives": ["score", "client_parameters"],
            "constraints": {"client_flops": "60%"},
            "space": {**_LEVELS, "lr": {"low": 0.02, "high": 0.1, "log": True}},
        },
    }


def levels_mnist() -> dict[str, Any]:
    """The paper's CNN; clients have 30 % of the FLOPs of all-large on average."""
    return {
        "preset": "mnist-dynamic",
        "rounds": 40,
        "evaluate_every": 5,
        "sweep": {
            "trials": 60,
            "objectives": ["score", "client_parameters", "weakest"],
            "constraints": {"client_flops": "30%"},
            "stopping": "asha",
            "grace": 10,
            "space": {
                **_LEVELS,
                "lr": {"low": 0.003, "high": 0.03, "log": True},
                "network.norm": ["sbn", "none"],
                "network.scaler": [True, False],
            },
        },
    }


def levels_wikitext2() -> dict[str, Any]:
    """The paper's Transformer; clients move half of what all-large moves, on average."""
    return {
        "preset": "wikitext2-dynamic",
        "rounds": 40,
        "evaluate_every": 5,
        "sweep": {
            "trials": 40,
            "objectives": ["score", "megabytes"],
            "constraints": {"client_megabytes": "50%"},
            "stopping": "asha",
            "grace": 10,
            "space": {**_LEVELS, "lr": {"low": 0.03, "high": 0.3, "log": True}},
        },
    }


SWEEPS: dict[str, Callable[[], dict[str, Any]]] = {
    "levels-digits": levels_digits,
    "levels-mnist": levels_mnist,
    "levels-wikitext2": levels_wikitext2,
}
