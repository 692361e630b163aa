"""What the HeteroFL paper claims, seen on short runs; `heterofl-ray reproduce` has its numbers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from heterofl_ray import ExperimentConfig, presets, run
from heterofl_ray.data.intake.importing import import_data
from heterofl_ray.data.intake.readers.contract import Options


@pytest.fixture
def digits() -> ExperimentConfig:
    return presets.load("digits-dynamic").override(
        [
            *("rounds=3", "evaluate_every=0", "local_epochs=2", "clients=20", "fraction=0.3"),
            *("network.hidden=[32,64,128]", "execution.trainer=plain"),
        ]
    )


def score(config: ExperimentConfig, *settings: str, kind: str = "global") -> float:
    return float(run(config.override(settings)).summary[kind]["accuracy"])


def test_strong_clients_lift_the_weak(digits: ExperimentConfig) -> None:
    """Table 2: half strong, half weak gives a far better model than all weak, at equal rounds."""
    assert score(digits, "mix=a-e") > score(digits, "mix=e") + 20


def test_static_batch_norm_beats_none(digits: ExperimentConfig) -> None:
    """Table 4."""
    assert score(digits, "mix=a-e", "network.norm=sbn") > 30 + score(
        digits, "mix=a-e", "network.norm=none"
    )


def test_the_scaler_helps(digits: ExperimentConfig) -> None:
    """Levels of other widths have other scales; where no norm evens them out, the Scaler does."""
    plain = digits.override(
        ["mix=a-c", "network.norm=none", "rounds=8", "local_epochs=4", "network.hidden=[32,64]"]
    )
    assert score(plain) > score(plain, "network.scaler=false") + 2


def test_masked_cross_entropy_lifts_local_scores_by_far(digits: ExperimentConfig) -> None:
    """Table 5: clients with two classes each, scored on those."""
    skewed = digits.override(["mix=a-e", "partition=classes:2", "rounds=6"])
    masked = score(skewed, "loss.masked=on", kind="local")
    assert masked > score(skewed, "loss.masked=off", kind="local") + 20


@pytest.mark.slow
@pytest.mark.realdata
def test_static_batch_norm_beats_none_on_cifar10(data_root: Path) -> None:
    folder = os.environ.get("HETEROFL_REALDATA")
    if not folder:
        pytest.skip("HETEROFL_REALDATA names no folder of real data")
    import_data(data_root, Path(folder) / "cifar10-jpeg.tar.xz", "cifar10", Options())
    cifar10 = presets.load("cifar10-dynamic").override(["mix=e", "rounds=5", "evaluate_every=0"])
    assert score(cifar10) > score(cifar10, "network.norm=none") + 5
