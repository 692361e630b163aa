"""Memory that a step frees stays with the process, for the next step.

Left alone, glibc gives the end of its heap back to the system as soon as a megabyte or two of it is
free, and larger blocks at once. A training step frees what it took, so the next one gets the same
pages anew: hundreds of page faults a step, which can take an eighth of it (docs/decisions.md).
Whether glibc does so depends on what a process happened to free before.
"""

from __future__ import annotations

import ctypes
import os
import sys

MEGABYTE = 1024**2

# The numbers of mallopt's parameters in glibc's <malloc.h>, each with the value for it.
SETTINGS = {
    -1: 256 * MEGABYTE,  # M_TRIM_THRESHOLD: what may be free at the heap's end
    -3: 32 * MEGABYTE,  # M_MMAP_THRESHOLD: larger blocks are mapped by themselves; its largest
}
USERS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
"""Where a user says how it should be."""


def keep_it() -> None:
    """From now on, in this process; where the C library is another one, it does as it does."""
    if sys.platform != "linux" or any(name in os.environ for name in USERS):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, value in SETTINGS.items():
            mallopt(parameter, value)
