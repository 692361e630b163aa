"""Sub-models that differ in depth: what is in which block, and what a shallow model computes."""

from __future__ import annotations

import pytest
import torch

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.mixes import Level, parse_mix
from heterofl_ray.models import registry
from heterofl_ray.models.layers import assign, parameters_of
from heterofl_ray.models.layout import Place
from heterofl_ray.models.spec import ModelSpec
from heterofl_ray.setting_groups import NetworkConfig
from heterofl_ray.submodels.depth import is_top, of_depth, own_name, spread_depths
from heterofl_ray.submodels.levels import affordable_level

CNN = NetworkConfig(hidden=(8, 8, 16, 16), norm="none")
TEXT = NetworkConfig(embedding=8, heads=2, feedforward=12, layers=4)
SPECS = {
    "conv": ModelSpec("conv", (1, 8, 8), 10, CNN),
    "mlp": ModelSpec("mlp", (1, 8, 8), 10, CNN),
    "preresnet18": ModelSpec("preresnet18", (3, 8, 8), 10, CNN),
    "preresnet18-paper": ModelSpec("preresnet18-paper", (3, 8, 8), 10, CNN),
    "transformer": ModelSpec("transformer", (6,), 20, TEXT),
    "encoder": ModelSpec("encoder", (2, 6), 3, TEXT, vocabulary=20),
}


def level(depth: int) -> Level:
    return Level("a", 1.0, depth)


def example(spec: ModelSpec) -> torch.Tensor:
    if len(spec.input_shape) == 3:
        return torch.randn(2, *spec.input_shape)
    return torch.ones(2, *spec.input_shape, dtype=torch.long)


@pytest.mark.parametrize("name", SPECS)
def test_every_model_has_as_many_blocks_as_its_settings_say(name: str) -> None:
    spec = SPECS[name]
    config = ExperimentConfig(model=name, network=spec.network)
    blocks = {place.block for place in registry.places(spec, 1.0).values()}
    assert registry.block_count(config) == 4 == max(blocks)
    assert registry.block_count(ExperimentConfig(model=name)) == 4
    default = ModelSpec(name, (3, 32, 32), 10, NetworkConfig(), "ln", 20)
    if len(spec.input_shape) == 3:
        assert max(place.block for place in registry.places(default, 1.0).values()) == 4


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("name", SPECS)
def test_a_shallow_model_has_the_bottom_blocks_and_a_head(name: str, depth: int) -> None:
    spec = SPECS[name]
    whole = registry.build(spec, 1.0)
    shallow = registry.build(spec.at(level(depth)), 1.0)
    places, all_places = registry.places(spec.at(level(depth)), 1.0), registry.places(spec, 1.0)
    assert places == {n: place for n, place in all_places.items() if place.block <= depth}
    shapes = {n: p.shape for n, p in whole.named_parameters()}
    assert all(p.shape == shapes[n] for n, p in shallow.named_parameters() if n in places)
    heads = [n for n, _ in shallow.named_parameters() if n not in places]
    assert heads == [n for n in shapes if n not in all_places]
    assert torch.isfinite(shallow.eval()(example(spec))).all()


def test_blocks_above_leave_a_shallow_encoder_alone() -> None:
    """Its logits are the head's of what the whole model has after the same layers."""
    spec = SPECS["encoder"]
    whole, shallow = registry.build(spec, 1.0).eval(), registry.build(spec.at(level(2)), 1.0).eval()
    assign(shallow, parameters_of(whole))
    tokens, parts = example(spec).unbind(1)
    kept = whole.layers
    whole.layers = kept[:2]
    assert torch.equal(whole(example(spec)), shallow(example(spec)))
    whole.layers = kept
    assert not torch.allclose(whole(example(spec)), shallow(example(spec)))
    assert torch.equal(shallow.hidden(tokens, parts)[0], shallow.hidden(tokens, parts)[1])


def test_same_named_parts_of_blocks() -> None:
    places = registry.places(SPECS["conv"], 1.0)
    assert places["blocks.0.weight"] == Place(1, "conv.weight")
    places = registry.places(SPECS["encoder"], 1.0)
    assert places["tokens.weight"] == Place(0, "tokens.weight")
    assert places["layers.2.attention.query.bias"] == Place(3, "attention.query.bias")
    assert "classifier.weight" not in places
    places = registry.places(SPECS["preresnet18"], 1.0)
    assert places["stem.weight"] == Place(0, "stem.weight")
    assert places["body.2.shortcut.weight"] == Place(2, "block0.shortcut.weight")
    assert places["body.7.conv2.weight"] == Place(4, "block1.conv2.weight")


def test_a_depths_own_tensors_come_before_shared_ones() -> None:
    shared, own = torch.zeros(1), torch.ones(1)
    parameters = {"low": shared, "top": shared, own_name("top", 2): own}
    assert of_depth(parameters, ["low", "top"], 2) == {"low": shared, "top": own}
    assert of_depth(parameters, ["low", "top"], 3) == {"low": shared, "top": shared}
    assert is_top(None, 2)
    assert is_top(Place(2, "x"), 2)
    assert not is_top(Place(1, "x"), 2)


@pytest.mark.parametrize(
    ("blocks", "levels", "depths"),
    [(12, 3, (12, 8, 4)), (6, 3, (6, 4, 2)), (4, 5, (4, 4, 3, 2, 1)), (4, 1, (4,)), (1, 2, (1, 1))],
)
def test_depths_in_equal_steps(blocks: int, levels: int, depths: tuple[int, ...]) -> None:
    assert spread_depths(blocks, levels) == depths


def test_a_mix_with_depths() -> None:
    mix = parse_mix("a-b3-c", 0.5).with_depths((4, 3, 1))
    assert [(each.name, each.rate, each.depth) for each in mix.levels] == [
        ("a", 1.0, 4), ("b", 1.0, 3), ("c", 1.0, 1),
    ]  # fmt: skip
    assert mix.shares == (0.2, 0.6, 0.2)
    assert affordable_level(mix, 0.75).name == "b"
    assert affordable_level(mix, 0.74).name == "c"
    assert affordable_level(mix, 0.1).name == "c"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"depths": [2, 3]}, r"inclusivefl.depths=\[2, 3\] is not valid: must not increase"),
        ({"depths": [3, 2, 1]}, "mix=a-e needs one for each level"),
        ({"depths": [2, 0]}, "must be 1 or more"),
        ({"beta": 1.5}, "inclusivefl.beta=1.5 is not valid: must be 0 or more and at most 1"),
    ],
)
def test_wrong_depths(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        ExperimentConfig.from_dict({"method": "inclusivefl", "inclusivefl": settings})
