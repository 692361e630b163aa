"""Layouts of users' own models, derived from shapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

from heterofl_ray.errors import ConfigError
from heterofl_ray.models import registry
from heterofl_ray.models.layout import Channels, Fixed, Labels
from heterofl_ray.models.spec import ModelSpec
from heterofl_ray.setting_groups import NetworkConfig
from heterofl_ray.submodels.plan import SubmodelPlan
from heterofl_ray.submodels.selectors import leading


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "MODELS", dict(registry.MODELS))
    return None


def net(rate: float, rounding: Callable[[float], int] = math.ceil) -> nn.Module:
    width = max(1, rounding(24 * rate))
    return nn.Sequential(nn.Flatten(), nn.Linear(16, width), nn.ReLU(), nn.Linear(width, 3))


def own(name: str = "mine") -> ModelSpec:
    return ModelSpec(name, (1, 4, 4), 3, NetworkConfig())


def test_axes_that_shrink_are_channels() -> None:
    registry.register_model("mine", net, label_rows=["3.weight", "3.bias"])
    layout = registry.layout(own(), 0.5)
    assert layout["1.weight"] == (Channels("1.weight[0]", 12), Fixed(16))
    assert layout["3.weight"] == (Labels(3), Channels("3.weight[1]", 12))
    assert layout["3.bias"] == (Labels(3),)


def test_a_slice_of_it_is_the_leading_part() -> None:
    registry.register_model("mine", net)
    outer, inner = registry.layout(own(), 1.0), registry.layout(own(), 0.25)
    model = registry.build(own(), 1.0)
    piece = SubmodelPlan.of(outer, leading(outer, inner)).extract(dict(model.named_parameters()))
    assert torch.equal(piece["1.weight"], model[1].weight[:6])  # type: ignore[index]
    assert torch.equal(piece["3.weight"], model[3].weight[:, :6])  # type: ignore[index]


@pytest.mark.parametrize("rounding", [math.floor, round, math.ceil])
def test_any_one_rounding_of_widths_is_understood(rounding: Callable[[float], int]) -> None:
    registry.register_model("mine", lambda rate: net(rate, rounding))
    for rate in (1.0, 0.7, 0.3, 0.1):
        assert registry.layout(own(), rate)["1.bias"][0].width == max(1, rounding(24 * rate))


class Fused(nn.Module):
    """Query, key and value in one matrix: leading rows would keep no value rows at all."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        width = math.ceil(16 * rate)
        self.qkv = nn.Linear(8, 3 * width)


def test_fused_projections_are_refused_not_guessed() -> None:
    registry.register_model("fused", Fused)
    with pytest.raises(ConfigError, match=r"axis 0 of 'qkv.weight' is ambiguous.*segments="):
        registry.layout(own("fused"), 0.5)


def test_segments_settle_it() -> None:
    segments = {"qkv.weight": {0: 3}, "qkv.bias": {0: 3}}
    registry.register_model("fused", Fused, segments=segments)
    outer, inner = registry.layout(own("fused"), 1.0), registry.layout(own("fused"), 0.25)
    whole = {"qkv.weight": torch.arange(384.0).view(48, 8), "qkv.bias": torch.arange(48.0)}
    piece = SubmodelPlan.of(outer, leading(outer, inner)).extract(whole)
    assert piece["qkv.bias"].tolist() == [0, 1, 2, 3, 16, 17, 18, 19, 32, 33, 34, 35]


class Gated(nn.Module):
    """Two halves in one matrix, the hardest case to tell from leading rows."""

    def __init__(self, rate: float, width: int = 32) -> None:
        super().__init__()
        self.both = nn.Linear(4, 2 * math.ceil(width * rate))


@pytest.mark.parametrize(
    "width", [4, 5, 8, 10, 12, 16, 20, 24, 32, 48, 50, 64, 96, 100, 128, 256, 500, 512, 1000]
)
def test_two_halves_are_refused_at_any_usual_width(width: int) -> None:
    registry.register_model("gated", lambda rate: Gated(rate, width))
    with pytest.raises(ConfigError, match="ambiguous"):
        registry.layout(own("gated"), 0.5)


class Flattened(nn.Module):
    """A feature map flattened before a linear layer: 20 channels of 16 places each."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        width = math.ceil(20 * rate)
        self.conv = nn.Conv2d(1, width, 3)
        self.fc = nn.Linear(width * 16, 3)


def test_a_flattened_map_is_asked_about_and_can_be_answered() -> None:
    registry.register_model("flat", Flattened)
    with pytest.raises(ConfigError, match=r"axis 1 of 'fc.weight'"):
        registry.layout(own("flat"), 0.3)
    registry.register_model("flat", Flattened, segments={"fc.weight": {1: 1}})
    assert registry.layout(own("flat"), 0.3)["fc.weight"][1] == Channels("fc.weight[1]", 96)


def deeper(rate: float) -> nn.Module:
    return nn.Sequential(*(nn.Linear(4, 4) for _ in range(round(4 * rate))))


def wider(rate: float) -> nn.Module:
    return nn.Linear(4, math.ceil(8 / rate))


@pytest.mark.parametrize(
    ("factory", "options", "says"),
    [
        (deeper, {}, "do not have the same parameters"),
        (wider, {}, "no axis may grow"),
        (lambda rate: "a model", {}, "must return a torch nn.Module"),
        (net, {"segments": {"nope": {0: 1}}}, "parameter='nope'"),
        (net, {"label_rows": ["3.wieght"]}, "did you mean '3.weight'"),
        (net, {"segments": {"1.weight": {0: 5}}}, "does not divide axis 0"),
    ],
)
def test_models_that_are_refused(factory: object, options: dict, says: str) -> None:  # type: ignore[type-arg]
    registry.register_model("odd", factory, **options)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=says):
        registry.layout(own("odd"), 0.5)


def test_built_in_names_are_taken() -> None:
    with pytest.raises(ConfigError, match="must be new"):
        registry.register_model("conv", net)
    with pytest.raises(ConfigError, match="task"):
        registry.register_model("x", net, task="sound")
