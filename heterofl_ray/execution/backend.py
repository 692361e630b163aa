"""What the simulation asks of a place where jobs run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from heterofl_ray.clients.jobs import CalibrateJob, EvaluateJob, TrainJob

Job = TrainJob | CalibrateJob | EvaluateJob
Work = tuple[Any, ...]
"""A job and what it runs on: (job, level's slice, …)."""


class Backend(Protocol):
    def run(self, work: Sequence[Work]) -> Iterator[Any]:
        """Results in the order of ``work``, whatever order they were finished in."""

    def close(self) -> None: ...
