"""What passes through this process while Ray works for it, in bytes.

Not only what it gets and puts itself: Ray hands a small result to whoever asked for it, and sends
it along with every call that is given it.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray.actor import ActorMethod
from ray.experimental import get_object_locations

from heterofl_ray.execution.transport import INLINED_BYTES


class DriverBytes:
    """Counts between `start` and `total`; what is returned meanwhile is kept until then."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        self._sent = 0
        self._returned: list[ray.ObjectRef] = []
        self._fetched: set[ray.ObjectRef] = set()

    def total(self) -> int:
        """Everything so far; what is under way is waited for."""
        ray.wait(self._returned, num_returns=len(self._returned), fetch_local=False)
        came = {one for one in self._returned if is_inlined(one)} | self._fetched
        return self._sent + size(came)

    def called(self, arguments: Iterable[Any], returned: Any) -> None:
        for given in arguments:
            if not isinstance(given, ray.ObjectRef):
                self._sent += len(pickle.dumps(given))
            elif is_inlined(given):
                self._sent += size([given])
        self._returned += returned if isinstance(returned, list) else [returned]

    def got(self, references: Any) -> None:
        self._fetched |= set(references if isinstance(references, list) else [references])

    def put(self, reference: ray.ObjectRef) -> None:
        self._sent += size([reference])


def is_inlined(reference: ray.ObjectRef) -> bool:
    """Whether its value is in no object store, but here."""
    place = get_object_locations([reference]).get(reference)
    return place is not None and (place["object_size"] or 0) <= INLINED_BYTES


def size(references: Iterable[ray.ObjectRef]) -> int:
    return sum(place["object_size"] or 0 for place in get_object_locations([*references]).values())


@contextmanager
def counting() -> Iterator[DriverBytes]:
    """Has all calls of actors' methods, gets and puts counted."""
    counter = DriverBytes()
    call, get, put = ActorMethod._remote, ray.get, ray.put

    def counted_call(self: Any, args: Any = (), kwargs: Any = None, **options: Any) -> Any:
        returned = call(self, args, kwargs, **options)
        counter.called(args, returned)
        return returned

    def counted_get(references: Any, **options: Any) -> Any:
        counter.got(references)
        return get(references, **options)

    def counted_put(value: Any, **options: Any) -> Any:
        reference = put(value, **options)
        counter.put(reference)
        return reference

    ActorMethod._remote, ray.get, ray.put = counted_call, counted_get, counted_put
    try:
        yield counter
    finally:
        ActorMethod._remote, ray.get, ray.put = call, get, put
