"""The suite's jobs: full ones are compiled for, quick ones never wait for the compiler."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.data import provide
from benchmarks.fedavg import theme
from benchmarks.fedavg.job import settings
from benchmarks.jobs import FEW_ROUNDS, JOBS
from benchmarks.runtime import config_of_overhead
from heterofl_ray.clients.trainers import choice, packages
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig

FULL_AND_QUICK = {
    **{job.name: (job.config(), job.config(rounds=FEW_ROUNDS)) for job in JOBS},
    "runtime": [config_of_overhead(quick) for quick in (False, True)],
    "fedavg": [ExperimentConfig.from_dict(settings(n)) for n in (theme.ROUNDS, FEW_ROUNDS)],
}


@pytest.mark.parametrize("name", FULL_AND_QUICK)
def test_only_full_jobs_are_compiled_for(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "compiler", lambda: "g++")
    full, quick = FULL_AND_QUICK[name]
    if name != "runtime":  # which has data of its own
        provide(full.data, tmp_path, share=10)
    for config, compiled in ((full, True), (quick, False)):
        bench = Workbench(config, tmp_path, torch.device("cpu"))
        for level in config.levels.levels:
            assert (choice.chosen(bench, level) == "compiled") == compiled
