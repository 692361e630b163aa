"""Waiting for Ray: in slices, so that it is never in silence and never for ever.

Ray tells of an actor that died, and mostly of an object that went down with its node. Where its
books are behind it looks for that object for ten minutes, and says nothing meanwhile.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.experimental import get_object_locations

from heterofl_ray.errors import Interrupted
from heterofl_ray.execution.failures import ObjectsLost
from heterofl_ray.execution.transport import INLINED_BYTES

logger = logging.getLogger(__name__)

SAY_SECONDS = 30.0
"""Of silence, before it is said what is waited for."""
LOOK_SECONDS = 10.0
"""Between looks for what is waited for."""
LOOKUP_MILLISECONDS = 5000


class Every:
    """Is due once in so many seconds; the first time after as many."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.again()

    def again(self) -> None:
        self._last = time.monotonic()

    def is_due(self) -> bool:
        due = time.monotonic() - self._last >= self._seconds
        if due:
            self.again()
        return due


def ready(references: Sequence[ray.ObjectRef], count: int, seconds: float) -> list[ray.ObjectRef]:
    """Those whose values are here, so that to get them takes no time.

    `ray.wait`, which makes a SystemError of what a signal's handler raises while it waits.
    """
    try:
        found, _ = ray.wait(list(references), num_returns=count, timeout=seconds)
    except SystemError as error:
        if isinstance(error.__cause__, Interrupted):
            raise error.__cause__ from None
        raise
    return list(found)


def is_gone(things: Iterable[Any]) -> bool:
    """Whether one of the objects among ``things`` is on no living node any more."""
    objects = [thing for thing in things if isinstance(thing, ray.ObjectRef)]
    if not objects:
        return False
    living = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
    try:
        places = get_object_locations(objects, LOOKUP_MILLISECONDS)
    except GetTimeoutError:
        return False
    return any(
        (place["object_size"] or 0) > INLINED_BYTES
        and not place["did_spill"]
        and living.isdisjoint(place["node_ids"])
        for place in places.values()
    )


def fetch(handle: ray.ObjectRef, patience: float) -> Any:
    """An object's value, had within ``patience`` seconds; else `ObjectsLost`.

    It is asked for again after a while, each time a longer one: Ray's own next try may be minutes
    away, and what is large needs its time.
    """
    waited, seconds = 0.0, min(LOOK_SECONDS, patience)
    while True:
        try:
            return ray.get(handle, timeout=seconds)
        except GetTimeoutError:
            waited += seconds
            if waited >= patience or is_gone([handle]):
                raise ObjectsLost(
                    f"an object of the store could not be had in {waited:.0f} s"
                ) from None
            logger.warning("waiting for an object of the store for %.0f s", waited)
            seconds = min(waited, patience - waited)
        except RayError as error:
            raise ObjectsLost(str(error)) from None
