"""A run that is done once: found where it is finished, gone on with where it was stopped.

A run is known by its config's hash, as its method settles the config.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from heterofl_ray.commands.run import train
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import DataError
from heterofl_ray.tracking.folder import find_runs

if TYPE_CHECKING:
    from heterofl_ray.result import RunResult


def run_once(
    config: ExperimentConfig, root: Path, quiet: bool, name: str
) -> tuple[RunResult, bool]:
    """The run of this config: found, gone on with, or made; whether it was found."""

    def say(what: str) -> None:
        if not quiet:
            print(f"{name}: {what}", file=sys.stderr, flush=True)

    from heterofl_ray.progress import Shown, Silent
    from heterofl_ray.result import RunResult
    from heterofl_ray.runner import resume, settled

    finished, stopped = find_runs(settled(config), root)
    if finished is not None:
        say(f"is there: {finished}")
        return RunResult.open(finished), True
    if stopped is not None:
        overrides = [
            f"execution.{key}={getattr(config.execution, key)}" for key in ("backend", "address")
        ]
        try:
            say(f"goes on in {stopped}")
            return resume(
                stopped, overrides=overrides, progress=Silent() if quiet else Shown()
            ), False
        except DataError:
            say("has no checkpoint yet and is begun again")
    else:
        say("begins")
    return train(config, root, quiet), False
