"""The CNNs of FedMD's participants."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from heterofl_ray.errors import ConfigError
from heterofl_ray.mixes import Level
from heterofl_ray.models import registry
from heterofl_ray.models.layers import assign, parameters_of
from heterofl_ray.models.spec import ModelSpec
from heterofl_ray.participants import parse_participant
from heterofl_ray.setting_groups import NetworkConfig
from heterofl_ray.submodels.plan import SubmodelPlan
from heterofl_ray.submodels.selectors import leading


def spec_of(text: str, shape: tuple[int, ...], outputs: int = 16) -> ModelSpec:
    level = Level("p0", 1.0, participant=parse_participant("fedmd.participants", text))
    return ModelSpec("conv", shape, outputs, NetworkConfig(), "sbn").at(level)


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (1, 2, 9)])
@pytest.mark.parametrize("text", ["party:8-16:.2", "party:6-6-10:.3", "party:4-4-4-4:.2"])
def test_every_image_size_does(shape: tuple[int, ...], text: str) -> None:
    model = registry.build(spec_of(text, shape), 1.0)
    assert model(torch.randn(3, *shape)).shape == (3, 16)


def test_filters_dropout_and_pooling_are_as_written() -> None:
    model = registry.build(spec_of("party:64-128-192:.25", (1, 28, 28)), 1.0)
    layers = list(model.modules())
    filters = [layer.out_channels for layer in layers if isinstance(layer, nn.Conv2d)]
    assert filters == [64, 128, 192, 16]
    assert {layer.p for layer in layers if isinstance(layer, nn.Dropout)} == {0.25}
    assert sum(isinstance(layer, nn.MaxPool2d) for layer in layers) == 3
    assert model.classifier.weight.shape == (16, 192, 3, 3)  # 28 -> 14 -> 7 -> 3
    small = registry.build(spec_of("party:64-128-192:.25", (1, 8, 8)), 1.0)
    assert small.classifier.weight.shape == (16, 192, 2, 2)  # 8 -> 4 -> 2
    usual = registry.build(spec_of("party", (1, 28, 28)), 1.0)
    assert usual.classifier.weight.shape == (16, 256, 7, 7)


def test_each_participant_has_its_own_models_norm() -> None:
    """The spec it is made from is of another family, whose norm is another."""
    party, conv = (registry.build(spec_of(t, (1, 8, 8)), 1.0) for t in ("party:8", "conv:8-8"))
    assert any(isinstance(layer, nn.GroupNorm) for layer in party.modules())
    assert not any(isinstance(layer, nn.GroupNorm) for layer in conv.modules())


def test_a_slice_computes_what_the_whole_computes_with_other_channels_silenced() -> None:
    network = NetworkConfig(hidden=(8, 12), norm="none")
    spec = ModelSpec("party", (1, 8, 8), 10, network)
    wide, narrow = (registry.build(spec, rate).double().eval() for rate in (1.0, 0.5))
    outer, inner = (registry.layout(spec, rate) for rate in (1.0, 0.5))
    plan = SubmodelPlan.of(outer, leading(outer, inner))
    piece = plan.extract(parameters_of(wide))
    assign(narrow, piece)
    silenced = {name: torch.zeros_like(p) for name, p in wide.named_parameters()}
    plan.scatter(silenced, piece)
    assign(wide, silenced)
    images = torch.randn(3, 1, 8, 8, dtype=torch.float64)
    assert torch.allclose(wide(images), narrow(images), atol=1e-12)


def test_what_is_no_image_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"model='party'.*is for images"):
        registry.build(ModelSpec("party", (64,), 10, NetworkConfig()), 1.0)
