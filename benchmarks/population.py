"""A million clients against a hundred: memory beyond the index, and time for a cohort of ten.

Every measurement is a fresh process (`benchmarks.population_probe`) that deals the data anew.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.measure import Figure
from heterofl_ray.data.info import DataInfo
from heterofl_ray.data.store import Columns, Draft, write_dataset

NAME = "population"
ABOUT = "1,000,000 clients against 100, a cohort of 10: resident memory and time for a cohort"

FEW = 100


def measure(quick: bool) -> list[Figure]:
    population, repeats = (100_000, 1) if quick else (1_000_000, 5)
    index = 8 * population + 8 * population  # per example and per client
    memory, time, alike = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _write(root, "large", population)
        _write(root, "small", FEW)
        for _ in range(repeats):
            few = _probe(root, "large", FEW)
            many = _probe(root, "large", population)
            same_sized = _probe(root, "small", FEW)
            memory.append((many["resident"] - few["resident"]) / index)
            time.append(many["seconds"] / few["seconds"])
            alike.append(many["seconds"] / same_sized["seconds"])
    return [
        Figure(
            name="population-memory",
            about="resident memory beyond that with 100 clients over the same data / the index: "
            "8 bytes per example and 8 per client (runs differ by about 1 MB anyhow)",
            values=tuple(memory),
            at_most=None if quick else 1,  # that megabyte is most of a small index
            less_is_better=True,
        ),
        Figure(
            name="population-time",
            about="a cohort's time / that with 100 clients over the same data, who hold more each",
            values=tuple(time),
            at_most=1.1,
            tolerance=0.25,  # what the few take, with 10,000 examples each, differs between runs
        ),
        Figure(
            name="population-time-same-size",
            about="a cohort's time / that with 100 clients who hold one example each, too",
            values=tuple(alike),
            at_most=1.1,
        ),
    ]


def _write(root: Path, name: str, examples: int) -> None:
    """Tiny random images."""
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (examples, 1, 2, 2), dtype=np.uint8)
    labels = random.integers(0, 10, examples)
    info = DataInfo(
        name=name,
        kind="images",
        train=examples,
        test=1,
        shape=(1, 2, 2),
        classes=tuple("0123456789"),
        mean=(0.5,),
        std=(0.5,),
    )
    parts: dict[str, Columns] = {
        "train": {"image": images, "label": labels},
        "test": {"image": images[:1], "label": labels[:1]},
    }
    write_dataset(root, Draft(info, parts))


def _probe(root: Path, name: str, clients: int) -> dict[str, float]:
    shutil.rmtree(root / "partitions", ignore_errors=True)
    command = [sys.executable, "-m", "benchmarks.population_probe", str(root), name, str(clients)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    figures: dict[str, float] = json.loads(answer)
    return figures
