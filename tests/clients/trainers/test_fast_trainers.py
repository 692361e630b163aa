"""Every faster trainer against the plain one: same data, same start, in float64."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from heterofl_ray.clients.losses import Objective
from heterofl_ray.clients.trainers import packages
from heterofl_ray.clients.trainers.base import Batch, Trainer
from heterofl_ray.clients.trainers.channels_last import ChannelsLastTrainer
from heterofl_ray.clients.trainers.compiled import CompiledTrainer
from heterofl_ray.clients.trainers.graphed import GraphedTrainer
from heterofl_ray.clients.trainers.plain import PlainTrainer
from heterofl_ray.clients.trainers.step import Step
from heterofl_ray.clients.trainers.vectorised import VectorisedTrainer
from heterofl_ray.models import registry
from heterofl_ray.models.layers import assign, parameters_of, set_scaler_rate
from heterofl_ray.models.spec import ModelSpec
from heterofl_ray.setting_groups import NetworkConfig, OptimizerConfig

CPU = torch.device("cpu")
SHAPE = (1, 8, 8)
SETTINGS = OptimizerConfig()
MODELS = [
    ("conv", NetworkConfig(hidden=(8, 8))),
    ("conv", NetworkConfig(hidden=(8, 16), norm="in", scaler=False)),
    ("conv", NetworkConfig(hidden=(8, 16), norm="gn")),
    ("conv", NetworkConfig(hidden=(8, 16), norm="ln")),
    ("conv", NetworkConfig(hidden=(8, 16), norm="none")),
    ("preresnet18-paper", NetworkConfig(hidden=(8, 8, 16, 16))),
    ("mlp", NetworkConfig(hidden=(16, 8))),
]


def make_model(name: str, network: NetworkConfig) -> nn.Module:
    torch.manual_seed(3)
    spec = ModelSpec(name, SHAPE, 10, network, registry.family(name).default_norm)
    model = registry.build(spec, 0.5).double()
    set_scaler_rate(model, 0.5)
    return model


def batches(sizes: tuple[int, ...] = (4, 4, 4, 3), seed: int = 5) -> list[Batch]:
    random = torch.Generator().manual_seed(seed)
    return [
        (
            torch.randn(size, *SHAPE, generator=random, dtype=torch.float64),
            torch.randint(0, 10, (size,), generator=random),
        )
        for size in sizes
    ]


def after(trainer: Trainer, model: nn.Module, objective: Objective) -> tuple[float, list[Tensor]]:
    model = copy.deepcopy(model)
    loss = trainer.train(model, batches(), objective, 0.1)
    return loss, [parameter.detach() for parameter in model.parameters()]


def check_same(trainer: Trainer, model: nn.Module, objective: Objective) -> None:
    settings = trainer.settings  # type: ignore[attr-defined]
    expected_loss, expected = after(PlainTrainer(settings), model, objective)
    loss, found = after(trainer, model, objective)
    assert loss == pytest.approx(expected_loss, rel=1e-9)
    for ours, plain, start in zip(found, expected, model.parameters(), strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-9, atol=1e-11)
        assert ours.is_contiguous()
        assert ours.dtype == start.dtype


def masked(held: list[int] | None) -> Objective:
    return Objective.masked(None if held is None else torch.tensor(held), 10, CPU)


class Stepwise:
    """The pure step, uncompiled, for every batch."""

    def __init__(self, settings: OptimizerConfig) -> None:
        self.settings = settings

    def train(self, model: nn.Module, given: list[Batch], objective: Objective, lr: float) -> float:
        model.train()
        step = Step(model, objective.function, self.settings)
        parameters = [parameter.detach() for parameter in model.parameters()]
        momenta, rate = step.start(parameters), torch.tensor(lr, dtype=torch.float64)
        total = 0.0
        for inputs, targets in given:
            loss = step(parameters, momenta, inputs, targets, rate, objective.client)
            total += float(loss) * len(targets)
        return total / sum(len(targets) for _, targets in given)


@pytest.mark.parametrize(("name", "network"), MODELS)
@pytest.mark.parametrize("held", [None, [1, 2, 7]])
def test_channels_last_equals_plain(
    name: str, network: NetworkConfig, held: list[int] | None
) -> None:
    check_same(ChannelsLastTrainer(SETTINGS), make_model(name, network), masked(held))


@pytest.mark.parametrize(
    "settings",
    [
        SETTINGS,
        OptimizerConfig(momentum=0),
        OptimizerConfig(weight_decay=0),
        OptimizerConfig(clip_norm=0),
        OptimizerConfig(clip_norm=0.01),
    ],
)
def test_the_pure_step_equals_autograd_with_an_optimiser(settings: OptimizerConfig) -> None:
    check_same(Stepwise(settings), make_model(*MODELS[0]), masked([1, 2, 7]))


@pytest.mark.parametrize(("name", "network"), MODELS)
@pytest.mark.parametrize("held", [None, [1, 2, 7]])
def test_what_is_compiled_equals_plain(
    name: str, network: NetworkConfig, held: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The very graph that the compiler gets, run as it is."""
    model, objective = make_model(name, network), masked(held)
    trainer = CompiledTrainer(SETTINGS, "", (4, *SHAPE), threads=1)
    traced = packages.trace(*trainer._example(model, objective))
    assert not any("convolution" in str(node.target) for node in traced.graph.graph.nodes)
    monkeypatch.setattr(trainer, "ready", lambda *_: traced.run)
    check_same(trainer, model, objective)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "network"), [MODELS[0]])
def test_compiled_code_equals_plain_and_is_made_once(
    name: str, network: NetworkConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HETEROFL_CACHE", str(tmp_path))
    model, objective = make_model(name, network), masked([1, 2, 7])
    check_same(CompiledTrainer(SETTINGS, "test", (4, *SHAPE), threads=1), model, objective)

    (package,) = (tmp_path / "steps").glob("*.so")
    before = package.stat().st_mtime_ns
    monkeypatch.setattr(packages, "_compile", lambda *_: pytest.fail("compiled again"))
    check_same(CompiledTrainer(SETTINGS, "test", (4, *SHAPE), threads=1), model, objective)
    assert package.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "change",
    [
        {"recipe": "another"},
        {"batch": (5, *SHAPE)},
        {"threads": 2},
        {"settings": replace(SETTINGS, momentum=0.8)},
    ],
)
def test_another_recipe_is_another_package(change: dict[str, object]) -> None:
    trainer = CompiledTrainer(SETTINGS, "one", (4, *SHAPE), threads=1)
    other = replace(trainer, **change)  # type: ignore[arg-type]
    assert trainer.path(masked(None)) == replace(trainer).path(masked(None))
    assert trainer.path(masked(None)) != other.path(masked(None))
    assert trainer.path(masked(None)) != trainer.path(masked([1]))


@pytest.mark.parametrize(("name", "network"), MODELS)
@pytest.mark.parametrize("held", [None, [1, 2, 7]])
def test_vectorised_equals_plain(name: str, network: NetworkConfig, held: list[int] | None) -> None:
    check_same(VectorisedTrainer(SETTINGS), make_model(name, network), masked(held))


def test_clients_trained_together_do_not_meet() -> None:
    """Three clients with data and labels of their own, each as if it were alone."""
    model = make_model(*MODELS[0])
    start = {key: value.clone() for key, value in parameters_of(model).items()}
    given = [batches(seed=seed) for seed in (1, 2, 3)]
    objectives = [masked([0, 1]), masked([2, 3, 4]), masked([5])]
    together = VectorisedTrainer(SETTINGS).train_together(model, start, given, objectives, 0.1)
    for own, objective, (found, loss) in zip(given, objectives, together, strict=True):
        assign(model, start)
        assert PlainTrainer(SETTINGS).train(model, own, objective, 0.1) == pytest.approx(loss)
        for key, value in parameters_of(model).items():
            torch.testing.assert_close(found[key], value, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("trainer", [PlainTrainer, ChannelsLastTrainer])
def test_bfloat16_is_near_float32_but_not_it(trainer: type[PlainTrainer]) -> None:
    model = make_model(*MODELS[0]).float()
    given = [(inputs.float(), targets) for inputs, targets in batches()]
    losses = []
    for precision in (torch.float32, torch.bfloat16):
        own = copy.deepcopy(model)
        losses.append(trainer(SETTINGS, precision).train(own, given, masked(None), 0.1))
        assert all(parameter.dtype == torch.float32 for parameter in own.parameters())
    assert losses[0] != losses[1]
    assert losses[1] == pytest.approx(losses[0], rel=0.02)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")
@pytest.mark.parametrize("held", [None, [1, 2, 7]])
def test_a_recorded_step_equals_plain(held: list[int] | None) -> None:
    device = torch.device("cuda")
    model = make_model(*MODELS[0]).float().to(device)
    given = [(inputs.float().to(device), targets.to(device)) for inputs, targets in batches()]
    objective = Objective.masked(None if held is None else torch.tensor(held), 10, device)
    own = copy.deepcopy(model)
    loss = PlainTrainer(SETTINGS).train(model, given, objective, 0.1)
    assert GraphedTrainer(SETTINGS, (4, *SHAPE)).train(own, given, objective, 0.1) == pytest.approx(
        loss, rel=1e-4
    )
    for ours, plain in zip(own.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-3, atol=1e-5)
