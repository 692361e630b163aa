"""Memory that steps free, in processes of their own: what is set here cannot be taken back."""

from __future__ import annotations

import subprocess
import sys
from unittest.mock import Mock

import pytest

from heterofl_ray.execution import freed_memory

# Page faults of a hundred steps that take eight megabytes in pieces and free them.
STEPS = """
import resource
{first}

def step():
    for piece in [bytearray(200_000) for _ in range(40)]:
        piece[::4096] = bytes(len(piece[::4096]))

for _ in range(3):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
KEEPING = "from heterofl_ray.execution.freed_memory import keep_it; keep_it()"


def faults(first: str, **environment: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", STEPS.format(first=first)],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", **environment},
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="it is a setting of Linux's C library")
def test_steps_find_the_pages_that_the_last_one_freed() -> None:
    assert faults("") > 100_000  # eight megabytes a step, in pages of four kilobytes
    assert faults(KEEPING) < 1_000


@pytest.mark.skipif(sys.platform != "linux", reason="it is a setting of Linux's C library")
def test_what_a_user_says_about_it_stays() -> None:
    assert faults(KEEPING, MALLOC_TRIM_THRESHOLD_="131072") > 100_000


@pytest.mark.parametrize(("platform", "looked"), [("darwin", 0), ("linux", 1)])
def test_another_c_library_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, platform: str, looked: int
) -> None:
    library = Mock(return_value=object())  # which has no mallopt
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(freed_memory.ctypes, "CDLL", library)
    for name in freed_memory.USERS:
        monkeypatch.delenv(name, raising=False)
    freed_memory.keep_it()
    assert library.call_count == looked
