"""Writing states of the global model to disk from where they are, not through the driver."""

from __future__ import annotations

import logging
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from heterofl_ray.errors import RunFailed
from heterofl_ray.execution.actors import write_parts

logger = logging.getLogger(__name__)


class Writer:
    """One write at a time; the next waits for the one before."""

    def __init__(self) -> None:
        self._writing: ray.ObjectRef | None = None
        self._what: tuple[Any, ...] = ()
        self._node = ""

    def start(self, server: Any, node: str, what: tuple[Any, ...]) -> None:
        """Write ``what`` (a function, its arguments and a state) on the node ``node``.

        ``server`` is a server on that node, which has all that is needed loaded; None: a task of
        its own does it.
        """
        self.finish()
        self._what, self._node = what, node
        self._writing = server.write.remote(*what) if server is not None else self._as_task()

    def finish(self) -> None:
        """Wait for the write under way. A disk that fails ends the run; a lost state does not."""
        writing, self._writing = self._writing, None
        if writing is None:
            return
        try:
            try:
                ray.get(writing)
            except RayActorError:  # the server died over it; the state may still be there
                ray.get(self._as_task())
        except RayTaskError as error:
            if not isinstance(error.cause, RayError):
                raise RunFailed(f"the checkpoint could not be written: {error.cause}") from None
            logger.warning("a state was lost before it was written: %s", error.cause)
        except RayError as error:
            logger.warning("a state was lost before it was written: %s", error)

    def _as_task(self) -> ray.ObjectRef:
        there = NodeAffinitySchedulingStrategy(self._node, soft=False)
        task = ray.remote(num_cpus=0, scheduling_strategy=there)(write_parts)
        return task.remote(*self._what)
