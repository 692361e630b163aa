"""Jobs under way on the pool, whose results are asked for later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heterofl_ray.execution.ray_pool import Pool
from heterofl_ray.execution.ray_tasks import Task


class RayBatch:
    """Test jobs on the pool."""

    def __init__(self, pool: Pool, tasks: Sequence[Task]) -> None:
        self._pool = pool
        self._tasks = tasks
        pool.submit(tasks)

    def done(self) -> bool:
        return any(task.error for task in self._tasks) or all(task.done for task in self._tasks)

    def abandon(self) -> None:
        self._pool.abandon(self._tasks)

    def results(self) -> list[Any]:
        while not self.done():
            self._pool.turn()
        raise_first(self._tasks)
        return [task.references[0] if task.references else task.result for task in self._tasks]


def raise_first(tasks: Sequence[Task]) -> None:
    """The error of a task that cannot be done, if there is one."""
    for task in tasks:
        if task.error is not None:
            raise task.error
