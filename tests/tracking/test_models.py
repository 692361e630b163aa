"""Models as files: what another process makes of them is what they were here."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from heterofl_ray import register_model, run
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.models import registry
from heterofl_ray.result import RunResult
from heterofl_ray.runner import make_bench
from heterofl_ray.tracking import models
from heterofl_ray.tracking.files import _export
from heterofl_ray.tracking.models import input_example, read_example, write_models

from .conftest import predict_elsewhere

pytestmark = pytest.mark.slow


@pytest.fixture
def own(tiny: ExperimentConfig, monkeypatch: pytest.MonkeyPatch) -> ExperimentConfig:
    """A run of a model that only this process can build."""
    monkeypatch.setattr(registry, "MODELS", dict(registry.MODELS))

    def factory(rate: float) -> nn.Module:
        width = math.ceil(32 * rate)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))

    register_model("mine", factory, label_rows=["3.weight", "3.bias"])
    return tiny.override(["model=mine", "network.hidden=[]", "rounds=1"])


def finished(config: ExperimentConfig, data_root: Path) -> tuple[RunResult, Path]:
    """A run with the files that tracking adds to it."""
    result = run(config)
    folder = Path(result.summary["run_dir"]).absolute()
    (folder / "tracking").mkdir()
    write_models(result, make_bench(config, data_root), folder)
    return result, folder


def test_text_and_a_users_own_model_predict_elsewhere(
    own: ExperimentConfig, tiny_text: ExperimentConfig, data_root: Path, tmp_path: Path
) -> None:
    expected, places = [], []
    for config in (own, tiny_text.override(["rounds=1"])):
        result, folder = finished(config, data_root)
        if config is own:
            del registry.MODELS["mine"]  # as in the sender's process
        with torch.no_grad():
            expected.append(result_of(result, folder))
        places.append(str(tmp_path / config.model))
        sender: Any = SimpleNamespace(folder=folder, run_id="r")
        _export(sender, "m-1", Path(places[-1]))
    for answer, wanted in zip(predict_elsewhere(*places), expected, strict=True):
        assert torch.equal(answer, wanted)


def result_of(result: RunResult, folder: Path) -> torch.Tensor:
    """What the model answers to the example when it is built from the run's parameters."""
    if result.config.model == "mine":
        weights = result.parameters
        hidden = torch.relu(
            nn.functional.linear(
                read_example(folder).flatten(1), weights["1.weight"], weights["1.bias"]
            )
        )
        return nn.functional.linear(hidden, weights["3.weight"], weights["3.bias"])
    answer: torch.Tensor = result.global_model()(read_example(folder))
    return answer


def test_the_example_is_the_first_of_the_test_set(
    tiny: ExperimentConfig, tiny_text: ExperimentConfig, data_root: Path
) -> None:
    bench = make_bench(tiny, data_root)
    inputs, _ = next(iter(bench.data.test_batches(0, 4, 4, torch.device("cpu"))))
    assert torch.equal(input_example(bench), inputs)
    assert input_example(bench).shape == (4, 1, 8, 8)
    words = input_example(make_bench(tiny_text, data_root))
    assert words.shape == (4, tiny_text.text.window)
    assert words.dtype == torch.long


def test_what_cannot_be_written_does_not_harm_the_run(
    tiny: ExperimentConfig,
    data_root: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(models, "write_submodels", full)
    finished(tiny.override(["rounds=1"]), data_root)
    assert "left out of MLflow" in caplog.text
    assert "No space left" in caplog.text
