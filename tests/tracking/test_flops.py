"""FLOPs of clients' training, by hand, and looked up the second time."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

from heterofl_ray.clients.jobs import ClientReport
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.models import registry
from heterofl_ray.models.spec import ModelSpec
from heterofl_ray.setting_groups import NetworkConfig
from heterofl_ray.tracking import flops
from heterofl_ray.tracking.flops import training_flops


def test_training_flops_of_images_by_hand(tmp_path: Path) -> None:
    config = ExperimentConfig(model="mlp", mix="a-b", local_epochs=2)
    spec = ModelSpec("mlp", (64,), 10, NetworkConfig(hidden=(8,)), "none")
    flops = training_flops(config, spec, tmp_path)
    assert flops is not None
    forward = {"a": 2 * (64 * 8 + 8 * 10), "b": 2 * (64 * 4 + 4 * 10)}
    for report in (ClientReport(0, "a", 0.0, 30, 0, 0.0), ClientReport(0, "b", 0.0, 7, 0, 0.0)):
        assert flops(report) == 3 * forward[report.level] * report.examples * 2


def test_training_flops_of_text_count_windows(tmp_path: Path) -> None:
    config = ExperimentConfig(data="pydocs", model="transformer", mix="a", local_epochs=1)
    network = NetworkConfig(embedding=16, heads=2, feedforward=16, layers=1)
    one = training_flops(config, ModelSpec("transformer", (8,), 100, network, "ln"), tmp_path)
    assert one is not None
    window, twenty = (one(ClientReport(0, "a", 0.0, tokens, 0, 0.0)) for tokens in (8, 20))
    decoder = 2 * 8 * (16 * 16 + 16 * 100)  # the two last layers alone, over one window
    assert window > 3 * decoder
    assert twenty == window * 20 / 8


def test_they_are_counted_once_for_a_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[tuple[int, ...]] = []
    plain = flops._count

    def count(config: ExperimentConfig, spec: ModelSpec) -> dict[str, float] | None:
        counted.append(spec.hidden)
        return plain(config, spec)

    monkeypatch.setattr(flops, "_count", count)
    config = ExperimentConfig(model="mlp", mix="a-b")
    report = ClientReport(0, "b", 0.0, 1, 0, 0.0)

    def take(*hidden: int) -> float:
        spec = ModelSpec("mlp", (64,), 10, NetworkConfig(hidden=hidden), "none")
        found = training_flops(config, spec, tmp_path / "costs")
        assert found is not None
        return found(report)

    first, second, wider = take(8), take(8), take(16)
    assert first == second
    assert wider == 2 * first
    assert counted == [(8,), (16,)]
    for path in (tmp_path / "costs").iterdir():
        path.write_text("{")  # damaged ones are counted again
    assert take(8) == first
    assert counted == [(8,), (16,), (8,)]


def test_a_users_own_model_is_counted_each_time_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "MODELS", dict(registry.MODELS))

    def factory(rate: float) -> nn.Module:
        if rate < 1:
            raise ValueError("not traceable")
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

    registry.register_model("mine", factory)
    spec = ModelSpec("mine", (1, 8, 8), 10, NetworkConfig(), "none")
    whole = training_flops(ExperimentConfig(model="mine", mix="a"), spec, tmp_path)
    assert whole is not None
    assert whole(ClientReport(0, "a", 0.0, 2, 0, 0.0)) == 3 * 2 * 64 * 10 * 2 * 5
    assert training_flops(ExperimentConfig(model="mine", mix="a-b"), spec, tmp_path) is None
    assert list(tmp_path.iterdir()) == []
