"""Whole runs: what they reach, what they keep, what they give back."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from heterofl_ray import presets, register_model, run
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.sources import load
from heterofl_ray.errors import ConfigError, DataError
from heterofl_ray.models import registry
from heterofl_ray.result import RunResult
from heterofl_ray.runner import make_backend, make_bench
from heterofl_ray.simulation import Simulation
from heterofl_ray.submodels.selectors import Cut


def test_non_iid_clients_do_better_on_their_own_classes() -> None:
    config = presets.digits_dynamic().override(
        ["mix=b-d", "partition=classes:2", "rounds=25", "evaluate_every=0"]
    )
    summary = run(config).summary
    assert summary["local"]["accuracy"] > 90
    assert summary["local"]["accuracy"] > summary["global"]["accuracy"] + 3


def test_text_perplexity_falls(tiny_text: ExperimentConfig) -> None:
    config = tiny_text.override(["rounds=6", "evaluate_every=1", "fraction=0.1"])
    history = run(config).history["global_perplexity"].to_pylist()
    assert history[-1] < history[0] / 2


def test_tests_happen_when_due(tiny: ExperimentConfig) -> None:
    config = tiny.override(["rounds=5", "evaluate_every=2"])
    table = run(config).history
    tested = [value is not None for value in table["global_accuracy"].to_pylist()]
    assert tested == [False, True, False, True, True]
    by_level = [value is not None for value in table["level_c_accuracy"].to_pylist()]
    assert by_level == [False, False, False, False, True]


@pytest.mark.parametrize(("when", "times"), [("always", 3), ("final", 1), ("never", 0)])
def test_when_levels_are_tested(tiny: ExperimentConfig, when: str, times: int) -> None:
    config = tiny.override(["rounds=3", "evaluate_every=1", f"evaluation.levels={when}"])
    table = run(config).history
    found = (
        table["level_c_accuracy"].to_pylist() if "level_c_accuracy" in table.column_names else []
    )
    assert sum(value is not None for value in found) == times


def test_megabytes_are_the_slices_moved(tiny: ExperimentConfig, data_root: Path) -> None:
    config = tiny.override(["rounds=1"])
    bench = make_bench(config, data_root)
    backend = make_backend(bench)
    record = Simulation(bench, backend).train(1)
    backend.close()
    by_hand = sum(
        tensor.numel() * 4
        for report in record.reports
        for tensor in backend.cut(Cut(config.levels[report.level])).values()
    )
    assert record.megabytes == pytest.approx(by_hand / 1024**2)
    assert len(record.reports) == config.cohort_size


def test_result_models_give_the_scores_of_the_run(tiny: ExperimentConfig, data_root: Path) -> None:
    result = run(tiny)
    reopened = RunResult.open(Path(result.summary["run_dir"]))
    dataset = load("digits", data_root)
    images = (dataset.test.images.float() / 255 - dataset.info.mean[0]) / dataset.info.std[0]
    for source in (result, reopened):
        for level in ("a", "c"):
            with torch.no_grad():
                right = source.submodel(level)(images).argmax(1) == dataset.test.labels
            expected = result.summary["levels"][level]["accuracy"]
            assert 100 * right.float().mean().item() == pytest.approx(expected, abs=1e-4)
    assert torch.equal(result.global_model()(images), result.submodel("a")(images))
    with pytest.raises(ConfigError, match="level='z'"):
        result.submodel("z")


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not the folder of a finished run"):
        RunResult.open(tmp_path)


def test_a_users_own_model_trains(tiny: ExperimentConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "MODELS", dict(registry.MODELS))

    def factory(rate: float) -> torch.nn.Module:
        width = math.ceil(32 * rate)
        return torch.nn.Sequential(
            torch.nn.Flatten(),
            torch.nn.Linear(64, width),
            torch.nn.ReLU(),
            torch.nn.Linear(width, 10),
        )

    register_model("mine", factory, label_rows=["3.weight", "3.bias"])
    result = run(tiny.override(["model=mine", "rounds=15", "network.hidden=[]"]))
    assert result.summary["global"]["accuracy"] > 60
    assert result.submodel("c")(torch.zeros(1, 1, 8, 8)).shape == (1, 10)


def test_running_statistics_in_a_users_model_are_refused(
    tiny: ExperimentConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "MODELS", dict(registry.MODELS))

    def factory(rate: float) -> torch.nn.Module:
        width = math.ceil(8 * rate)
        return torch.nn.Sequential(
            torch.nn.Conv2d(1, width, 8), torch.nn.BatchNorm2d(width), torch.nn.Flatten()
        )

    register_model("stateful", factory)
    with pytest.raises(ConfigError, match=r"1 \(BatchNorm2d\) keeps running statistics"):
        run(tiny.override(["model=stateful"]))


def test_two_runs_in_the_same_second_get_folders_of_their_own(tiny: ExperimentConfig) -> None:
    config = tiny.override(["rounds=1"])
    folders = {run(config).summary["run_dir"] for _ in range(3)}
    assert len(folders) == 3


@pytest.mark.parametrize("model", ["conv", "preresnet18-paper", "preresnet18", "mlp"])
@pytest.mark.parametrize("assignment", ["fix", "dynamic", "capability"])
def test_every_image_model_and_assignment_runs(
    tiny: ExperimentConfig, model: str, assignment: str
) -> None:
    hidden = "[8,8,8,8]" if model.startswith("preresnet") else "[8,8]"
    config = tiny.override(
        [f"model={model}", f"assignment={assignment}", f"network.hidden={hidden}", "rounds=1"]
    )
    accuracy = run(config).summary["global"]["accuracy"]
    assert 0 <= accuracy <= 100
