"""Writing states of the global model to disk from where they are, not through the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from heterofl_ray.errors import RunFailed
from heterofl_ray.execution.actors import write_parts
from heterofl_ray.execution.failures import ServerLost

Wait = Callable[[list[ray.ObjectRef], str, Sequence[Any]], None]


class Writer:
    """One write at a time; the next waits for the one before.

    ``wait`` waits for references to answers, not for ever, given what these need.
    """

    def __init__(self, wait: Wait) -> None:
        self._wait = wait
        self._writing: ray.ObjectRef | None = None
        self._problem = ""
        self._what: tuple[Any, ...] = ()
        self._node = ""

    def start(self, server: Any, node: str, what: tuple[Any, ...]) -> None:
        """Write ``what`` (a function, its arguments and a state) on the node ``node``.

        ``server`` is a server on that node, which has all that is needed loaded; None: a task of
        its own does it.
        """
        self.outcome(wait=True)
        self._what, self._node = what, node
        self._writing = server.write.remote(*what) if server is not None else self._as_task()

    def outcome(self, wait: bool) -> str | None:
        """Why the last write failed; empty: it did not. None: it is still under way.

        A disk that fails is told, and so is a state that was lost; what else goes wrong ends the
        run.
        """
        if self._writing is None:
            return self._problem
        if not wait and not ray.wait([self._writing], timeout=0, fetch_local=False)[0]:
            return None
        writing, self._writing = self._writing, None
        self._problem = self._result(writing)
        return self._problem

    def _result(self, writing: ray.ObjectRef) -> str:
        try:
            try:
                self._finish(writing)
            except RayActorError:  # the server died over it; the state may still be there
                self._finish(self._as_task())
        except RayTaskError as error:
            cause = error.cause
            if isinstance(cause, OSError):
                return cause.strerror or str(cause)
            if not isinstance(cause, RayError):
                raise RunFailed(f"the checkpoint could not be written: {cause}") from None
            return f"the state was lost ({type(cause).__name__})"
        except RayError as error:
            return f"the state was lost ({type(error).__name__})"
        except ServerLost as error:
            return str(error)
        return ""

    def _finish(self, writing: ray.ObjectRef) -> None:
        _, _, clients, *state = self._what
        needs = [*state, *(kept.tensors for kept in clients.values())]
        self._wait([writing], "the checkpoint to be written", needs)
        ray.get(writing)

    def _as_task(self) -> ray.ObjectRef:
        there = NodeAffinitySchedulingStrategy(self._node, soft=False)
        task = ray.remote(num_cpus=0, scheduling_strategy=there)(write_parts)
        return task.remote(*self._what)
