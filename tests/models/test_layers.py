from __future__ import annotations

import pytest
import torch
from torch import nn

from heterofl_ray.errors import ConfigError
from heterofl_ray.models.layers import Scaler, StaticBatchNorm, assign, norm, set_scaler_rate
from heterofl_ray.models.layout import Channels, channels, scaled


def test_scaler_divides_in_training_only() -> None:
    scaler = Scaler(0.25)
    x = torch.tensor([1.0, -2.0])
    assert scaler(x).tolist() == [4.0, -8.0]
    assert scaler.eval()(x).tolist() == [1.0, -2.0]


def test_scaler_of_the_largest_level_changes_nothing() -> None:
    x = torch.randn(3)
    assert Scaler(1.0)(x) is x


def test_set_scaler_rate_reaches_every_scaler() -> None:
    model = nn.Sequential(Scaler(), nn.Sequential(Scaler()))
    set_scaler_rate(model, 0.5)
    assert model(torch.ones(1)).item() == 4.0


def test_widths_are_ceilings_of_exact_products() -> None:
    assert [scaled(64, 0.3), scaled(100, 0.07), scaled(4, 0.0625), scaled(10, 1.0)] == [
        20,
        7,
        1,
        10,
    ]


def test_heads_are_scaled_one_by_one() -> None:
    assert channels("inner", 256, 0.7, segments=8).width == 184
    assert channels("stream", 256, 0.7).width == 180


def test_static_batch_norm_by_hand() -> None:
    layer = StaticBatchNorm(1, eps=0.0)
    with torch.no_grad():
        layer.weight.fill_(2.0)
        layer.bias.fill_(1.0)
    x = torch.tensor([[[[1.0]]], [[[3.0]]]])  # mean 2, biased variance 1
    assert layer(x).flatten().tolist() == [-1.0, 3.0]


def test_static_batch_norm_keeps_nothing_of_training() -> None:
    layer = StaticBatchNorm(3)
    layer(torch.randn(5, 3, 2, 2))
    assert layer.mean is None
    with pytest.raises(RuntimeError, match="calibrate before testing"):
        layer.eval()(torch.randn(5, 3, 2, 2))


def test_static_batch_norm_takes_a_single_value_per_channel() -> None:
    layer = StaticBatchNorm(2)
    assert layer(torch.tensor([[5.0, -7.0]])).flatten().tolist() == pytest.approx([0, 0], abs=1e-4)


@pytest.mark.parametrize("shape", [(6, 4), (6, 4, 3, 3)])
def test_static_batch_norm_in_training_is_batch_norm(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    reference: nn.Module = nn.BatchNorm1d(4) if len(shape) == 2 else nn.BatchNorm2d(4)
    assert torch.equal(StaticBatchNorm(4)(x), reference(x))


@pytest.mark.parametrize(
    ("kind", "groups"), [("in", 8), ("gn", 4), ("ln", 1)], ids=lambda v: str(v)
)
def test_norms_of_the_ablation(kind: str, groups: int) -> None:
    layer = norm(kind, Channels("x", 8))
    assert isinstance(layer, nn.GroupNorm)
    assert layer.num_groups == groups


def test_group_norm_refuses_a_width_it_cannot_divide() -> None:
    with pytest.raises(ConfigError, match=r"network\.norm='gn'.*a level has 45"):
        norm("gn", Channels("x", 45))


def test_assign_gives_the_model_its_own_copy() -> None:
    model = nn.Linear(2, 2)
    values = {"weight": torch.ones(2, 2), "bias": torch.zeros(2)}
    assign(model, values)
    with torch.no_grad():
        model.weight.add_(1)
    assert values["weight"].tolist() == [[1.0, 1.0], [1.0, 1.0]]
