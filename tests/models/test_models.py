"""Every model at every level: shapes, layouts, and how cutting acts on what it computes."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from heterofl_ray.errors import ConfigError
from heterofl_ray.models import registry
from heterofl_ray.models.layers import Scaler, assign, parameters_of
from heterofl_ray.models.layout import Channels, channels, read_layout
from heterofl_ray.models.spec import ModelSpec
from heterofl_ray.models.transformer import Attention
from heterofl_ray.setting_groups import NetworkConfig
from heterofl_ray.submodels.plan import SubmodelPlan
from heterofl_ray.submodels.selectors import leading

SMALL = {
    "conv": ModelSpec("conv", (1, 8, 8), 10, NetworkConfig(hidden=(8, 16, 16, 32)), "sbn"),
    "preresnet18": ModelSpec(
        "preresnet18", (3, 8, 8), 10, NetworkConfig(hidden=(8, 16, 16, 32)), "sbn"
    ),
    "preresnet18-paper": ModelSpec(
        "preresnet18-paper", (3, 8, 8), 10, NetworkConfig(hidden=(8, 16, 16, 32)), "sbn"
    ),
    "transformer": ModelSpec(
        "transformer", (16,), 30, NetworkConfig(embedding=32, heads=4, feedforward=64, layers=2)
    ),
    "mlp": ModelSpec("mlp", (1, 8, 8), 10, NetworkConfig()),
}


def example(spec: ModelSpec) -> torch.Tensor:
    if spec.name == "transformer":
        return torch.randint(0, spec.outputs + 1, (3, *spec.input_shape))
    return torch.randn(3, *spec.input_shape)


@pytest.mark.parametrize("rate", [1.0, 0.7, 0.5, 0.3, 0.0625])
@pytest.mark.parametrize("name", SMALL)
def test_builds_and_computes_at_any_rate(name: str, rate: float) -> None:
    spec = SMALL[name]
    model = registry.build(spec, rate)
    logits = model(example(spec))
    expected = (3, *spec.input_shape, 30) if name == "transformer" else (3, 10)
    assert logits.shape == expected
    assert torch.isfinite(logits).all()


@pytest.mark.parametrize("norm", ["sbn", "in", "gn", "ln", "none"])
@pytest.mark.parametrize("name", ["conv", "preresnet18-paper", "mlp"])
def test_every_norm_of_the_ablation(name: str, norm: str) -> None:
    network = NetworkConfig(norm=norm, hidden=(8, 16, 16, 32))
    spec = ModelSpec(name, SMALL[name].input_shape, 10, network)
    loss = registry.build(spec, 0.5)(example(spec)).sum()
    loss.backward()


@pytest.mark.parametrize("name", SMALL)
def test_scalers_can_be_left_out(name: str) -> None:
    network = NetworkConfig(scaler=False, hidden=SMALL[name].network.hidden)
    spec = ModelSpec(name, SMALL[name].input_shape, 10, network, SMALL[name].default_norm)
    assert not any(isinstance(m, Scaler) for m in registry.build(spec, 0.5).modules())
    assert any(isinstance(m, Scaler) for m in registry.build(SMALL[name], 0.5).modules())


@pytest.mark.parametrize("rate", [0.7, 0.5, 0.3])
@pytest.mark.parametrize("name", ["conv", "preresnet18", "mlp"])
def test_a_slice_computes_what_the_whole_computes_with_other_channels_silenced(
    name: str, rate: float
) -> None:
    """Cutting is consistent through residual streams and shortcuts: a wide model whose other
    channels are zero gives the narrow model's outputs."""
    spec = SMALL[name]
    wide, narrow = registry.build(spec, 1.0).double(), registry.build(spec, rate).double()
    outer, inner = registry.layout(spec, 1.0), registry.layout(spec, rate)
    plan = SubmodelPlan.of(outer, leading(outer, inner))
    whole = parameters_of(wide)
    piece = plan.extract(whole)
    silenced = {key: torch.zeros_like(tensor) for key, tensor in whole.items()}
    plan.scatter(silenced, piece)
    assign(wide, silenced)
    assign(narrow, piece)
    x = example(spec).double()
    assert torch.allclose(wide(x), narrow(x), atol=1e-12)


def test_a_slice_of_attention_computes_per_head() -> None:
    """Two heads of four channels, cut to two each: heads see rows 0, 1 and 4, 5."""
    stream, inner = Channels("stream", 3), channels("heads", 8, 1.0, segments=2)
    small = channels("heads", 8, 0.5, segments=2)
    torch.manual_seed(0)
    wide = Attention(stream, inner, torch.nn.Identity()).double()
    narrow = Attention(stream, small, torch.nn.Identity()).double()
    outer, cut = read_layout(wide), read_layout(narrow)
    piece = SubmodelPlan.of(outer, leading(outer, cut)).extract(parameters_of(wide))
    kept = [0, 1, 4, 5]
    assert torch.equal(piece["query.weight"], wide.query.weight[kept])
    assert torch.equal(piece["value.bias"], wide.value.bias[kept])
    assert torch.equal(piece["out.weight"], wide.out.weight[:, kept])

    assign(narrow, piece)
    x = torch.randn(1, 5, 3, dtype=torch.float64)
    by_hand = []
    for rows in ([0, 1], [4, 5]):
        q, k, v = (
            F.linear(x, layer.weight[rows], layer.bias[rows])
            for layer in (wide.query, wide.key, wide.value)
        )
        weights = (q @ k.transpose(1, 2) / 2**0.5).softmax(-1)  # square root of the local width 2
        by_hand.append(weights @ v)
    expected = F.linear(torch.cat(by_hand, -1), wide.out.weight[:, kept], wide.out.bias)
    assert torch.allclose(narrow(x), expected, atol=1e-12)


def test_residual_streams_are_one_group_each() -> None:
    layout = registry.layout(SMALL["preresnet18"], 1.0)
    stage0 = [name for name, axes in layout.items() if axes[0] == Channels("stage0", 8)]
    assert "stem.weight" in stage0
    assert {"body.0.conv2.weight", "body.1.conv2.weight", "body.1.norm1.weight"} <= set(stage0)
    assert layout["body.2.shortcut.weight"][:2] == (Channels("stage1", 16), Channels("stage0", 8))


def test_shortcut_only_where_stride_or_width_changes() -> None:
    names = set(registry.layout(SMALL["preresnet18"], 1.0))
    assert [f"body.{i}.shortcut.weight" in names for i in range(8)] == [
        False, False, True, False, True, False, True, False,
    ]  # fmt: skip


def test_equal_widths_of_two_stages_still_are_two_streams() -> None:
    """Stages 1 and 2 both have 16 channels here; their shortcut must not be left out."""
    assert "body.4.shortcut.weight" in registry.layout(SMALL["preresnet18"], 1.0)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (ModelSpec("conv", (1, 4, 4), 10, NetworkConfig(), "sbn"), "8x8 or more, not 4x4"),
        (
            ModelSpec("preresnet18", (3, 8, 8), 10, NetworkConfig(hidden=(8, 8)), "sbn"),
            "preresnet18 has 4 widths",
        ),
        (ModelSpec("transformer", (8,), 10, NetworkConfig(norm="sbn")), "layer norms"),
        (ModelSpec("covn", (1, 8, 8), 10, NetworkConfig()), "did you mean 'conv'"),
    ],
)
def test_what_cannot_be_built(spec: ModelSpec, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        registry.build(spec, 1.0)
