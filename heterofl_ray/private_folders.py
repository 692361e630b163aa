"""Folders of this user alone: what lies there is believed, or executed."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def make_private(place: Path) -> bool:
    """Make a folder unless it is there; whether nobody else can have put anything into it."""
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = place.lstat()
    closed = stat.S_ISDIR(found.st_mode) and not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    return closed and found.st_uid == os.geteuid()
