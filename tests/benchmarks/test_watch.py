"""Commands under watch, and this machine's peak."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.peak import _multiply
from benchmarks.watch import watch

MEGABYTES = 120

PROBE = f"""
import json, subprocess, sys, time
if len(sys.argv) == 1:
    held = bytearray({MEGABYTES} << 20)
    held[::4096] = b"x" * len(held[::4096])
    time.sleep(2)
else:
    subprocess.run([sys.executable, __file__], check=True)
    print("not this line")
    print(json.dumps({{"got": sys.argv[1]}}))
"""


def test_memory_of_descendants_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "probe_module.py").write_text(PROBE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    outcome = watch("probe_module", ["this"])
    assert outcome.printed == {"got": "this"}
    assert MEGABYTES << 20 < outcome.peak_bytes < (MEGABYTES + 60) << 20


def test_a_command_that_fails_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="exit code 1"):
        watch("no_such_module_here", [])


def test_matrix_products_are_counted() -> None:
    assert 1e8 < _multiply(0.05) < 1e13
