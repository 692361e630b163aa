"""The journal of a run: events as lines of JSON, appended by the driver, read by the sender.

Only the driver appends, one whole line with one write, so a reader sees at most a last line that is
not finished; that one is left alone until its end is there, and cut off when a crashed run is
resumed. How far events were sent is kept beside it, in a file that is replaced as a whole.
"""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import json
import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heterofl_ray.tracking.folder import TRACKING, partial

Event = dict[str, Any]

DRIVER, SENDER = "driver.lock", "sender.lock"
_TAIL = 1 << 17
"""Bytes; no event is longer."""


def journal_path(folder: Path) -> Path:
    return folder / TRACKING / "journal.jsonl"


class Journal:
    """The driver's end. Safe to use from several threads of it."""

    def __init__(self, folder: Path) -> None:
        self.path = journal_path(folder)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        _cut_torn_line(self.path)
        self._file = self.path.open("ab", buffering=0)
        self._lock = threading.Lock()
        self._late: deque[bytes] = deque()

    @property
    def late(self) -> int:
        """Events that the disk has not taken yet."""
        return len(self._late)

    def append(self, event: Mapping[str, Any]) -> None:
        """OSError when the disk does not take it; it is written before the next one then."""
        line = json.dumps(event, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            self._late.append(line)
            self._write()

    def _write(self) -> None:
        while self._late:
            end = os.fstat(self._file.fileno()).st_size
            if self._file.write(self._late[0]) < len(self._late[0]):
                os.ftruncate(self._file.fileno(), end)  # a line is there as a whole or not at all
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._late.popleft()

    def close(self) -> None:
        with self._lock, suppress(OSError):
            self._write()
        self._file.close()


def _cut_torn_line(path: Path) -> None:
    """Drop what a crash left of a line, so that the next one starts at its beginning."""
    if not path.exists():
        return
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)


@dataclass(frozen=True)
class Entry:
    """An event and where the line behind it begins."""

    event: Event
    end: int


def read(path: Path, offset: int = 0) -> list[Entry]:
    """Every whole line from ``offset`` on. A damaged one is an event without a kind."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            content = file.read()
    except FileNotFoundError:
        return []
    entries = []
    for line in content[: content.rfind(b"\n") + 1].splitlines(keepends=True):
        offset += len(line)
        entries.append(Entry(_parsed(line), offset))
    return entries


def last(path: Path) -> Event:
    """The last event; empty where there is none."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        content = file.read()
    lines = content[: content.rfind(b"\n") + 1].splitlines()
    return _parsed(lines[-1]) if lines else {}


def _parsed(line: bytes) -> Event:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):  # a machine that lost power may leave anything
        return {}
    return event if isinstance(event, dict) else {}


@dataclass(frozen=True)
class Sent:
    """How far the sender has come, for the driver and for ``track status``."""

    offset: int = 0
    """Everything before it is with MLflow."""
    run_id: str = ""
    place: str = ""
    """Where people find the run."""
    refused: int = 0
    """Events that the server would not take."""
    problem: str = ""
    """Why nothing is being sent at the moment."""
    failures: int = 0
    """Attempts that came to nothing."""

    @classmethod
    def read(cls, folder: Path) -> Sent:
        try:
            values = json.loads(_sent_path(folder).read_text(encoding="utf-8"))
            return cls(**values)
        except (OSError, ValueError, TypeError):  # then all is sent again, and counts once
            return cls()

    def write(self, folder: Path) -> None:
        path = _sent_path(folder)
        scratch = partial(path)
        try:
            scratch.write_text(json.dumps(dataclasses.asdict(self)), encoding="utf-8")
            scratch.replace(path)
        except OSError:
            scratch.unlink(missing_ok=True)
            raise


def _sent_path(folder: Path) -> Path:
    return folder / TRACKING / "sent.json"


@contextmanager
def held(folder: Path, name: str) -> Iterator[bool]:
    """Hold one of the run's locks; False where somebody else does. A dead process holds none."""
    path = folder / TRACKING / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def is_held(folder: Path, name: str) -> bool:
    with held(folder, name) as free:
        return not free
