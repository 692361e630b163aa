"""What is going on when nothing is: said when a soak finishes no round for long, or never ends."""

from __future__ import annotations

import faulthandler
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self

import ray
from ray._private.state import actors

STALL_SECONDS = 60.0
"""Without a finished round, after which it is looked at; and again after as long."""
_LOOK_SECONDS = 1.0
_CLEANING_SECONDS = 300.0
"""For what is begun to be ended, once time is over."""


class StallWatch:
    """Tells of a stall while it lasts: the driver's stacks, the actors and the nodes."""

    def __init__(
        self,
        idle: Callable[[], float],
        tell: Callable[[], None] | None = None,
        seconds: float = STALL_SECONDS,
    ) -> None:
        self.stalls = 0
        self._idle = idle
        self._tell = tell or tell_of_everybody
        self._seconds = seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        told = 0
        while not self._over.wait(min(_LOOK_SECONDS, self._seconds / 4)):
            due = int(self._idle() // self._seconds)
            if due > told:
                self.stalls += not told
                print(f"no round for {self._idle():.0f} s", file=sys.stderr, flush=True)
                self._tell()
            told = due


class OutOfTime(BaseException):
    """Not an Exception, so that nobody who goes on after errors can take it for one."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise in whatever the main thread does after so long; end the process if that is no help."""

    def ring(number: int, frame: FrameType | None) -> None:
        tell_of_everybody()
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    faulthandler.dump_traceback_later(seconds + _CLEANING_SECONDS, exit=True, file=2)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def tell_of_everybody() -> None:
    """On standard error."""
    for line in _cluster():
        print(line, file=sys.stderr)
    sys.stderr.flush()
    faulthandler.dump_traceback(file=2, all_threads=True)


def _cluster() -> Iterator[str]:
    """Ray's word on who is there; it may be what is stuck."""
    yield time.strftime("at %H:%M:%S")
    if not ray.is_initialized():
        yield "no Ray"
        return
    for node in ray.nodes():
        if node["Alive"]:
            yield f"node {node['NodeID'][:8]} {node['Resources'].get('CPU', 0):g} CPUs"
    for found in actors().values():
        if found["State"] != "DEAD":
            yield f"actor {found['ActorClassName']} {found['State']} {found['Address']}"
