"""How much a file may become when it is read: stated once, asked before memory or disk is taken."""

from __future__ import annotations

import threading

import psutil

from heterofl_ray.errors import DataError

LARGEST_FILE = 4 * 1024**3
"""Bytes of one file in a folder or an archive."""
LARGEST_TEXT = 1024**3
"""Bytes of a text or JSON file, which take many times that as words and numbers."""
ALWAYS = 1024**3
"""Bytes that anything may unpack to."""
RATIO = 100
"""What is larger may unpack to so many times its own size; honest data stays far below."""


def unpacked(size: int) -> int:
    """The most bytes that something packed of ``size`` bytes may stand for."""
    return max(ALWAYS, RATIO * size)


def half_of_memory() -> int:
    """What a data set may take before it is written: it is held twice for a moment."""
    return int(psutil.virtual_memory().total) // 2


class Budget:
    """Bytes that may be taken in all, asked for before each is. Threads may share one."""

    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._what = what
        self._taken = 0
        self._lock = threading.Lock()

    def take(self, count: int) -> None:
        with self._lock:
            self._taken += count
            if self._taken > self._most:
                raise DataError(f"{self._what} more than {self._most / 1024**3:.3g} GiB")
