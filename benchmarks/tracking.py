"""What recording a run costs its driver, while a sender fills a database beside it."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import torch

from benchmarks.measure import Figure
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.execution.local import LocalBackend
from heterofl_ray.simulation import Simulation
from heterofl_ray.tracking.destination import SWITCH
from heterofl_ray.tracking.folder import create_run_folder
from heterofl_ray.tracking.history import History, HistoryFile
from heterofl_ray.tracking.recorder import Recorder

NAME = "tracking"
ABOUT = "the driver's time for history, Parquet and MLflow against the rounds it records"


def measure(quick: bool) -> list[Figure]:
    os.environ[SWITCH] = "1"
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        rounds = 20 if quick else 60
        values = tuple(_share(root, rounds) for _ in range(2 if quick else 5))
    return [
        Figure(
            name="tracking-share",
            about=f"time of the driver spent on tracking / time of {rounds} small rounds "
            "(10 clients, 14 digits each, 5 levels)",
            values=values,
            at_most=0.01,
        )
    ]


def _share(root: Path, rounds: int) -> float:
    """One run with all that is kept of it, from the first round's record on."""
    config = ExperimentConfig.from_dict(
        {
            "data": "digits",
            "model": "conv",
            "mix": "a-b-c-d-e",
            "rounds": rounds,
            "lr": 0.05,
            "evaluate_every": 0,
            "tracking": {"root": str(root / "runs")},
        }
    )
    bench = Workbench(config, root / "data", torch.device("cpu"))
    dataset = bench.data.dataset
    folder = create_run_folder(config, root / "data")
    history, file = History(config), HistoryFile(folder)
    backend = LocalBackend(bench)
    spent = trained = 0.0
    try:
        with Recorder(config, folder, dataset.info, dataset.folder) as recorder:
            simulation = Simulation(bench, backend)
            for t in range(1, rounds + 1):
                record = simulation.train(t)
                started = time.perf_counter()
                row = history.add(record, backend.workers)
                file.write_if_due(history)
                recorder.round_done(row)
                spent += time.perf_counter() - started
                trained += record.seconds
    finally:
        backend.close()
    recorder.settle(lambda _: None)  # the next run shall have the machine for itself
    return spent / trained
