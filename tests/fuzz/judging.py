"""What every input must satisfy: a result or one clear line, soon, in little memory, no stray file.

Each input gets a folder of its own below a yard whose other contents are known. What a reader
writes must lie in the target folder; the yard around it, the folder for temporary files, the
working directory and what lies beside the yard stay as they were.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import shutil
import signal
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import psutil

from heterofl_ray.errors import ConfigError, DataError

SECONDS = 10
"""The longest that an input may take, of the processor's time."""
STUCK_SECONDS = 120
"""The same by the clock, which other programs make run on, too."""
MEMORY = 1536 * 1024**2
"""Bytes of address space that reading may take beyond what the process had."""


class TooSlow(BaseException):
    """Not an Exception, so that no reader can take it for one of its own."""


@dataclass
class Tally:
    """How many inputs there were, and what became of them."""

    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    slowest: float = 0.0
    kinds: dict[str, int] = field(default_factory=dict)


@dataclass
class Yard:
    """A folder to read and write in, and the count of what was tried there."""

    place: Path
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        for name in ("temporary", "working"):
            (self.place / name).mkdir(parents=True)
        (self.place / "bystander.txt").write_text("untouched")

    @property
    def given(self) -> Path:
        """Where an input lies."""
        return self.place / "given"

    @property
    def target(self) -> Path:
        """Where a reader may write."""
        return self.place / "target"

    def judge(self, kind: str, read: Callable[[], object]) -> None:
        """Have an input read, after it was put into ``given``; clean up behind it."""
        around = self._around()
        self.tally.inputs += 1
        self.tally.kinds[kind] = self.tally.kinds.get(kind, 0) + 1
        started = time.perf_counter()
        try:
            with alarm(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                read()
            self.tally.accepted += 1
        except (ConfigError, DataError) as error:
            message = str(error)
            assert message, "an error without a word"
            assert len(message) < 2000, f"a page, not a line: {message[:300]}"
            self.tally.refused += 1
        finally:
            self.tally.slowest = max(self.tally.slowest, time.perf_counter() - started)
            left = self._around()
            for folder in (self.given, self.target):
                shutil.rmtree(folder, ignore_errors=True)
        assert left == around, f"files outside the target: {left ^ around}"

    def _around(self) -> set[Seen]:
        """Everything in the yard but the input and the target, and what lies beside the yard."""
        found = {_seen(path) for path in self.place.parent.iterdir() if path != self.place}
        for folder, inner, files in os.walk(self.place):
            if Path(folder) == self.place:
                inner[:] = [name for name in inner if name not in ("given", "target")]
            found |= {_seen(Path(folder, name)) for name in (*inner, *files)}
        return found


Seen = tuple[str, int, int, int]


def _seen(path: Path) -> Seen:
    """What changes with a file: a write of as many bytes as before shows in its time."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):  # a folder's time tells of files that came and went
        return str(path), status.st_mode, 0, 0
    return str(path), status.st_mode, status.st_size, status.st_mtime_ns


@contextmanager
def yard(place: Path) -> Iterator[Yard]:
    """A yard in which this process works, with little memory to spare."""
    made = Yard(place)
    before = tempfile.tempdir, Path.cwd()
    tempfile.tempdir = str(place / "temporary")
    os.chdir(place / "working")
    limits = resource.getrlimit(resource.RLIMIT_AS)
    room = psutil.Process().memory_info().vms + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (room, limits[1]))
    try:
        yield made
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
        tempfile.tempdir = before[0]
        os.chdir(before[1])


@contextmanager
def alarm() -> Iterator[None]:
    """Raise in whatever takes too long; end the process if even that cannot be."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise TooSlow(f"more than {SECONDS} s of work, or {STUCK_SECONDS} s of waiting")

    timers = (
        (signal.SIGPROF, signal.ITIMER_PROF, SECONDS),
        (signal.SIGALRM, signal.ITIMER_REAL, STUCK_SECONDS),
    )
    before = {number: signal.signal(number, ring) for number, _, _ in timers}
    for _, timer, seconds in timers:
        signal.setitimer(timer, seconds)
    faulthandler.dump_traceback_later(2 * STUCK_SECONDS, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        for number, timer, _ in timers:
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])
