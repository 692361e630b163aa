from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from heterofl_ray import register_method, run
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.methods.registry import METHODS, resolve
from heterofl_ray.simulation import Simulation


class Twice(Simulation):
    """Another class of the same round."""


def test_a_users_method_runs_by_its_name(
    tiny: ExperimentConfig, data_root: Path, tmp_path: Path
) -> None:
    with mock.patch.dict(METHODS):
        register_method("twice", Twice)
        assert resolve("twice") is Twice
        config = tiny.override(["method=twice", f"tracking.root={tmp_path}"])
        found = run(config, data_dir=data_root)
    expected = run(tiny.override([f"tracking.root={tmp_path}"]), data_dir=data_root)
    assert found.summary["model_sha256"] == expected.summary["model_sha256"]


def test_ours_cannot_be_replaced_and_unknown_ones_are_named() -> None:
    assert resolve("heterofl") is Simulation
    for name in ("heterofl", ""):
        with pytest.raises(ConfigError, match="method name"):
            register_method(name, Twice)
    with pytest.raises(ConfigError, match="known: heterofl"):
        resolve("fedavgg")
