"""A command under watch: what it prints as JSON, when it started, its processes' peak memory.

Memory is the sum of PSS over the command and all its descendants, which counts pages that several
of them share once. It is looked at every half second.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psutil

EVERY_SECONDS = 0.5


@dataclass(frozen=True)
class Outcome:
    started: float
    """As `time.time` tells it."""
    printed: dict[str, Any]
    peak_bytes: int


def watch(module: str, arguments: Sequence[str]) -> Outcome:
    """Run ``python -m module`` with these arguments to its end."""
    started = time.time()
    command = [sys.executable, "-m", module, *arguments]
    # as on a user's machine, where Python keeps what it has compiled
    around = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=around) as process:
        over, peaks = threading.Event(), [0]

        def look() -> None:
            while not over.wait(EVERY_SECONDS):
                peaks.append(memory(process.pid))

        watcher = threading.Thread(target=look)
        watcher.start()
        try:
            printed, _ = process.communicate()
        finally:
            over.set()
            watcher.join()
    if process.returncode:
        raise RuntimeError(f"{module} ended with exit code {process.returncode}")
    return Outcome(started, json.loads(printed.splitlines()[-1]), max(peaks))


def memory(pid: int) -> int:
    """PSS of a process and its descendants; those that just ended count nothing."""
    total = 0
    try:
        processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return 0
    for process in processes:
        try:
            total += process.memory_full_info().pss
        except psutil.Error:
            continue
    return total
