"""The first thing a newcomer runs, in a process of its own."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_digits_reach_ninety_percent_within_a_minute(tmp_path: Path) -> None:
    """Of a processor's time: what else it has to do is not the newcomer's matter."""
    command = [
        str(Path(sys.executable).parent / "heterofl-ray"),
        *("run", "digits-dynamic", "--set", "mix=a-e", "--set", "rounds=30", "--json"),
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=600
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 60
    summary = json.loads(done.stdout)
    assert summary["global"]["accuracy"] >= 90
    assert set(summary["levels"]) == {"a", "e"}
    assert (tmp_path / summary["run_dir"] / "model.safetensors").is_file()
    assert "Traceback" not in done.stderr
