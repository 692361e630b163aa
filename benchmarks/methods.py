"""How long the usual methods take to be compared on digits, from the command to its report."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measure import Figure

NAME = "methods"
ABOUT = "the usual methods compared on digits, three seeds each, as a user does it"

COMMAND = ("compare", "methods-digits", "--seeds")
QUICK = ("--set", "rounds=1", "--set", "local_epochs=1")


def measure(quick: bool) -> list[Figure]:
    seeds = 1 if quick else 3
    return [
        Figure(
            name="methods-minutes",
            about=f"minutes that '{' '.join(COMMAND)} {seeds}' takes"
            + (" with one round of one pass" if quick else ""),
            values=(minutes(seeds, QUICK if quick else ()),),
            at_most=None if quick else 10,
            less_is_better=True,
        )
    ]


def minutes(seeds: int, settings: tuple[str, ...]) -> float:
    """In a folder of its own, so that no run is there yet."""
    program = Path(sys.executable).parent / "heterofl-ray"
    words = [str(program), *COMMAND, str(seeds), *settings, "--quiet", "--json"]
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
        taken = time.perf_counter() - started
    told = json.loads(done.stdout.splitlines()[-1])
    if told["found"] or any(len(row["runs"]) != seeds for row in told["methods"]):
        raise RuntimeError(f"not every run was made anew: {told}")
    return taken / 60
