"""Moments from native code are those of the model's own passes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from heterofl_ray.clients.compiled_moments import calibration_batch, compiled_moments
from heterofl_ray.clients.jobs import CalibrateJob
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.models.layers import parameters_of

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([], 100),
        (["execution.trainer=compiled"], 10),
        (["evaluation.calibration_batch_size=30", "execution.trainer=compiled"], 30),
        (["evaluation.calibrate=per-batch", "evaluation.calibration_batch_size=30"], 10),
    ],
)
def test_how_many_examples_are_read_at_once(
    changes: list[str], expected: int, tiny: ExperimentConfig, data_root: Path
) -> None:
    config = tiny.override(changes)
    bench = Workbench(config, data_root, CPU)
    assert calibration_batch(bench, config.levels.largest) == expected


def test_nothing_is_compiled_where_training_is_not(tiny: ExperimentConfig, data_root: Path) -> None:
    bench = Workbench(tiny, data_root, CPU)
    assert compiled_moments(bench, tiny.levels.largest) is None


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_compiled_moments_are_the_plain_ones(tiny: ExperimentConfig, data_root: Path) -> None:
    """1,005 examples: a hundred full batches, and one of five that is not compiled."""
    plain = tiny.override(["evaluation.calibrate=per-batch"])
    compiled = plain.override(["execution.trainer=compiled"])
    level = plain.levels.largest
    benches = [Workbench(config, data_root, CPU) for config in (plain, compiled)]
    start = {n: t.clone() for n, t in parameters_of(benches[0].model(level)).items()}
    ours, theirs = (CalibrateJob(level, 0, 1005).run(bench, start) for bench in benches)
    assert ours.weight == theirs.weight == 101
    for name, (mean, variance) in theirs.averages().items():
        torch.testing.assert_close(ours.averages()[name][0], mean, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(ours.averages()[name][1], variance, rtol=1e-5, atol=1e-6)
