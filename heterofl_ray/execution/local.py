"""Jobs one after another in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.execution.backend import Work


class LocalBackend:
    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._threads_before = torch.get_num_threads()
        torch.set_num_threads(bench.config.execution.threads)

    def run(self, work: Sequence[Work]) -> Iterator[Any]:
        for job, *inputs in work:
            yield job.run(self._bench, *inputs)

    def close(self) -> None:
        torch.set_num_threads(self._threads_before)
