"""Runs' folders as a run leaves them, written by hand so that every figure is known."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.models.spec import ModelSpec
from heterofl_ray.reporting.runs import Run

MakeRun = Callable[..., Path]

# A perceptron of 64 inputs, 8 hidden channels and 10 classes: level a has
# 64·8 + 8 + 8·10 + 10 = 610 parameters, level b 64·4 + 4 + 4·10 + 10 = 310.
SETTINGS: dict[str, Any] = {
    "data": "digits",
    "model": "mlp",
    "mix": "a-b",
    "rounds": 3,
    "network": {"hidden": [8]},
}
MEGABYTE = 1024**2

COLUMNS: dict[str, Sequence[float | None]] = {
    "round": [1, 2, 3],
    "seconds": [3.0, 2.0, 4.0],
    "loss": [2.0, 1.0, 0.5],
    "clients_a": [2, 1, 0],
    "clients_b": [0, 1, 2],
    "loss_a": [2.0, 0.9, None],
    "loss_b": [None, 1.1, 0.5],
    "rejected": [0, 0, 0],
    "megabytes_down": [4 * n / MEGABYTE for n in (2 * 610, 610 + 310, 2 * 310)],
    "global_accuracy": [50.0, None, 80.0],
    "local_accuracy": [60.0, None, 90.0],
    "level_a_accuracy": [50.0, None, 80.0],
    "level_b_accuracy": [None, None, 70.0],
}
RESULT: dict[str, Any] = {
    "rounds": 3,
    "seconds": 9.5,
    "global": {"accuracy": 80.0, "loss": 0.5},
    "local": {"accuracy": 90.0, "loss": 0.3},
    "levels": {"a": {"accuracy": 80.0, "loss": 0.5}, "b": {"accuracy": 70.0, "loss": 0.9}},
    "model_sha256": "ab" * 32,
    "input_shape": [64],
    "outputs": 10,
}


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Writes a run's folder; ``result=None`` leaves it unfinished."""

    def make(
        name: str = "one",
        settings: Mapping[str, Any] | None = None,
        columns: Mapping[str, Sequence[float | None]] | None = None,
        result: Mapping[str, Any] | None = RESULT,
    ) -> Path:
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        config = ExperimentConfig.from_dict(SETTINGS | dict(settings or {}))
        (folder / "config.yaml").write_text(config.to_yaml(), encoding="utf-8")
        pq.write_table(pa.table(dict(columns or COLUMNS)), folder / "history.parquet")
        if result is not None:
            (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
        return folder

    return make


@pytest.fixture
def known_run() -> Callable[..., Run]:
    """A run in memory, of the small perceptron."""

    def make(columns: Mapping[str, Sequence[float | None]] = COLUMNS, **settings: Any) -> Run:
        config = ExperimentConfig.from_dict(SETTINGS | settings)
        spec = ModelSpec(config.model, (64,), 10, config.network)
        return Run(Path("known"), config, columns, RESULT, spec)

    return make
