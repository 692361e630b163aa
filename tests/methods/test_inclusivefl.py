"""InclusiveFL against hand-worked numbers, and what it keeps apart."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from heterofl_ray import run
from heterofl_ray.cli import main
from heterofl_ray.clients.group_sum import GroupUpdate
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.methods import inclusivefl
from heterofl_ray.methods.inclusivefl import InclusiveFL, SubGlobalModels
from heterofl_ray.mixes import Level
from heterofl_ray.models import registry
from heterofl_ray.runner import make_bench
from heterofl_ray.submodels.selectors import Cut

SMALL = {
    "data": "sentences",
    "model": "encoder",
    "method": "inclusivefl",
    "mix": "a-b-c",
    "clients": 30,
    "fraction": 0.2,
    "rounds": 2,
    "local_epochs": 1,
    "lr": 0.01,
    "network": {"embedding": 4, "heads": 2, "feedforward": 6, "layers": 3},
    "inclusivefl": {"beta": 0.5},
}
CONV = {"data": "digits", "model": "conv", "network": {"hidden": [8, 8, 8]}}
BETA, LR, B1, B2, TAU = 0.5, 0.01, 0.9, 0.99, 1e-3


def small(**changed: Any) -> ExperimentConfig:
    return InclusiveFL.settle(ExperimentConfig.from_dict({**SMALL, **changed}))


def make_server(data_root: Path, config: ExperimentConfig) -> SubGlobalModels:
    return SubGlobalModels(make_bench(config, data_root))


Slopes = dict[int | str, float]
"""For each block, or 'head': what a round's clients of a type add to every number of it."""


def send(
    server: SubGlobalModels, config: ExperimentConfig, name: str, slopes: Slopes, clients: int
) -> None:
    """Clients that return the model they got, moved; each a little differently."""
    level = config.levels[name]
    model = server.cut(Cut(level))
    places = server._type(level).places
    for number in range(clients):
        around = 0.01 * (number - (clients - 1) / 2)
        moved = {
            tensor: value + slopes[places[tensor].block if tensor in places else "head"] + around
            for tensor, value in model.items()
        }
        server.accumulate(GroupUpdate(Cut(level), moved, 1.0, None, None))


class Adam:
    """FedAdam of one number, in plain arithmetic."""

    def __init__(self) -> None:
        self.m = self.v = 0.0

    def __call__(self, g: float) -> float:
        self.m = B1 * self.m + (1 - B1) * g
        self.v = B2 * self.v + (1 - B2) * g * g
        return LR * self.m / (math.sqrt(self.v) + TAU)


def moved_by(
    server: SubGlobalModels, level: Level, before: dict[str, torch.Tensor], block: int | str
) -> torch.Tensor:
    """By how much the numbers of one block have changed, all of them."""
    places = server._type(level).places
    now = server.cut(Cut(level))
    changes = [
        (now[name].double() - tensor.double()).flatten()
        for name, tensor in before.items()
        if (places[name].block if name in places else "head") == block
    ]
    return torch.cat(changes)


def test_two_rounds_by_hand(data_root: Path) -> None:
    """Types of 1, 2 and 3 layers; 1, 2 and 1 clients in round 1, then 3, 1 and 1.

    All numbers of a block get the same gradient, so one number stands for its block.
    """
    config = small()
    a, b, c = config.levels.levels
    assert [level.depth for level in (a, b, c)] == [3, 2, 1]
    server = make_server(data_root, config)
    start = {level.name: server.cut(Cut(level)) for level in (a, b, c)}

    # round 1
    send(server, config, "c", {0: 0.10, 1: 0.20, "head": 0.30}, 1)
    send(server, config, "b", {0: -0.10, 1: 0.05, 2: 0.15, "head": 0.25}, 2)
    send(server, config, "a", {0: 0.40, 1: -0.20, 2: 0.10, 3: 0.30, "head": -0.05}, 1)
    server.commit(1)

    adam = {
        key: Adam()
        for key in ["c0", "c1", "ch", "b0", "b1", "b2", "bh", "a0", "a1", "a2", "a3", "ah"]
    }
    c1_top = BETA * 0.0 + (1 - BETA) * 0.20  # there is no momentum yet
    b2_top = BETA * 0.0 + (1 - BETA) * 0.15
    c0, c1, ch = adam["c0"](0.10), adam["c1"](c1_top), adam["ch"](0.30)
    b0, b1, b2, bh = adam["b0"](-0.10), adam["b1"](0.05), adam["b2"](b2_top), adam["bh"](0.25)
    a0, a1, a2 = adam["a0"](0.40), adam["a1"](-0.20), adam["a2"](0.10)
    a3, ah = adam["a3"](0.30), adam["ah"](-0.05)
    momentum_b = (0.05 + b2_top) / 2  # its layers 1 and 2, for type c's layer 1
    momentum_a = (0.10 + 0.30) / 2  # its layers 2 and 3, for type b's layer 2
    # block 0 is shared by all three, layer 1 by b and a; layers 2 of a and b, 1 of c are tops
    shared0 = (1 * c0 + 2 * b0 + 1 * a0) / 4
    shared1 = (2 * b1 + 1 * a1) / 3
    expected = {
        "c": {0: shared0, 1: c1, "head": ch},
        "b": {0: shared0, 1: shared1, 2: b2, "head": bh},
        "a": {0: shared0, 1: shared1, 2: a2, 3: a3, "head": ah},
    }
    for level in (a, b, c):
        for block, value in expected[level.name].items():
            found = moved_by(server, level, start[level.name], block)
            assert found.sub(value).abs().max() < 1e-6, (level.name, block)

    # round 2: now the momenta count
    send(server, config, "c", {0: 0.02, 1: -0.04, "head": 0.10}, 3)
    send(server, config, "b", {0: 0.12, 1: 0.06, 2: -0.04, "head": 0.05}, 1)
    send(server, config, "a", {0: -0.06, 1: 0.16, 2: 0.20, 3: -0.10, "head": 0.15}, 1)
    server.commit(1)

    c1_top = BETA * momentum_b + (1 - BETA) * -0.04
    b2_top = BETA * momentum_a + (1 - BETA) * -0.04
    c0, c1, ch = adam["c0"](0.02), adam["c1"](c1_top), adam["ch"](0.10)
    b0, b1, b2, bh = adam["b0"](0.12), adam["b1"](0.06), adam["b2"](b2_top), adam["bh"](0.05)
    a0, a1, a2 = adam["a0"](-0.06), adam["a1"](0.16), adam["a2"](0.20)
    a3, ah = adam["a3"](-0.10), adam["ah"](0.15)
    second0 = shared0 + (3 * c0 + 1 * b0 + 1 * a0) / 5
    second1 = shared1 + (1 * b1 + 1 * a1) / 2
    after = {
        "c": {0: second0, 1: expected["c"][1] + c1, "head": expected["c"]["head"] + ch},
        "b": {
            0: second0,
            1: second1,
            2: expected["b"][2] + b2,
            "head": expected["b"]["head"] + bh,
        },
        "a": {
            0: second0,
            1: second1,
            2: expected["a"][2] + a2,
            3: expected["a"][3] + a3,
            "head": expected["a"]["head"] + ah,
        },
    }
    for level in (a, b, c):
        for block, value in after[level.name].items():
            found = moved_by(server, level, start[level.name], block)
            assert found.sub(value).abs().max() < 1e-6, (level.name, block)
    # and without momentum the smallest type's top would have gone the other way
    assert -0.04 < 0 < c1_top


def test_fedadam_by_hand(data_root: Path) -> None:
    """g = 0.5, then -0.1: m = 0.05 and 0.035, v = 0.0025 and 0.002575."""
    config = small(mix="a", inclusivefl={})
    server = make_server(data_root, config)
    (a,) = config.levels.levels
    start = server.cut(Cut(a))
    slopes: Slopes = {0: 0.5, 1: 0.5, 2: 0.5, 3: 0.5, "head": 0.5}
    send(server, config, "a", slopes, 1)
    server.commit(1)
    first = 0.01 * 0.05 / (0.05 + 0.001)
    assert first == pytest.approx(0.00980392, abs=1e-8)
    assert (moved_by(server, a, start, 3) - first).abs().max() < 1e-6
    send(server, config, "a", dict.fromkeys(slopes, -0.1), 1)
    server.commit(1)
    second = 0.01 * 0.035 / (math.sqrt(0.002575) + 0.001)
    assert second == pytest.approx(0.00676401, abs=1e-8)
    assert (moved_by(server, a, start, 3) - first - second).abs().max() < 1e-6


def test_types_begin_alike_below_their_heads(data_root: Path) -> None:
    config = small()
    server = make_server(data_root, config)
    whole = server.cut(Cut(config.levels.largest))
    for level in config.levels.levels[1:]:
        model = server.cut(Cut(level))
        below = [name for name in model if not name.startswith(("pooler", "classifier"))]
        assert all(torch.equal(model[name], whole[name]) for name in below)
        assert not torch.equal(model["classifier.weight"], whole["classifier.weight"])


def test_a_type_of_which_nobody_takes_part(data_root: Path) -> None:
    """Its top, moments and momentum stay; what it shares is refreshed."""
    config = small()
    a, b, _ = config.levels.levels
    server = make_server(data_root, config)
    send(server, config, "b", {0: 0.1, 1: 0.1, 2: 0.1, "head": 0.1}, 1)
    server.commit(1)
    kept = {name: tensor.clone() for name, tensor in server.state.items()}
    start = server.cut(Cut(b))
    send(server, config, "a", {0: 0.2, 1: 0.2, 2: 0.2, 3: 0.2, "head": 0.2}, 1)
    server.commit(1)
    changed = {name for name, tensor in server.state.items() if not torch.equal(tensor, kept[name])}
    assert not [name for name in changed if "depth2/" in name or "depth1/" in name]
    assert any(name.startswith("optimizer/depth3/distilled/") for name in changed)
    assert (moved_by(server, b, start, 1) > 0).all()
    shared = "layers.0.norm1.bias"
    assert torch.equal(server.cut(Cut(a))[shared], server.cut(Cut(b))[shared])


def test_only_tensors_of_equal_shape_are_distilled(data_root: Path) -> None:
    """Blocks of 8, 8 and 16 channels: the momentum for block 1 has nothing of the wider block."""
    config = small(
        data="digits",
        model="conv",
        network={"hidden": [8, 8, 16], "norm": "none"},
        inclusivefl={"beta": 0.5, "depths": [3, 3, 1]},
    )
    server = make_server(data_root, config)
    assert [kind.depth for kind in server._types] == [1, 3]  # a and b are one type
    send(server, config, "a", {1: 0.1, 2: 0.3, 3: 0.7, "head": 0.0}, 1)
    server.commit(1)
    momenta = {name: float(tensor.mean()) for name, tensor in server._momenta.items()}
    # kernels of block 1 have 1 channel to read, the others 8: only the bias is alike in 1 and 2
    assert momenta == pytest.approx(
        {
            "optimizer/depth3/distilled/conv.weight": 0.1,
            "optimizer/depth3/distilled/conv.bias": (0.1 + 0.3) / 2,
        },
        abs=1e-6,
    )
    shapes = {name: tuple(tensor.shape) for name, tensor in server._momenta.items()}
    assert shapes["optimizer/depth3/distilled/conv.bias"] == (8,)


def test_stages_of_unequal_widths_are_distilled_where_they_are_alike(data_root: Path) -> None:
    """Residual stages of 4, 8, 8 and 12 channels; the small type's top is the second."""
    config = small(
        data="digits",
        model="preresnet18",
        mix="a-b",
        network={"hidden": [4, 8, 8, 12]},
        inclusivefl={"beta": 0.5, "depths": [4, 2]},
    )
    server = make_server(data_root, config)
    before = server.cut(Cut(config.levels["b"]))
    send(server, config, "a", {0: 0.0, 1: 0.1, 2: 0.2, 3: 0.4, 4: 0.8, "head": 0.0}, 1)
    server.commit(1)
    start = "optimizer/depth4/distilled/"
    momenta = {name.removeprefix(start): tensor for name, tensor in server._momenta.items()}
    # what reads the stage below: 4 channels in the second stage, 8 in the third
    narrow = [name for name in momenta if name.startswith(("block0.norm1", "block0.conv1"))]
    narrow.append("block0.shortcut.weight")
    assert len(narrow) == 4
    for name, tensor in momenta.items():
        mean = 0.2 if name in narrow else (0.2 + 0.4) / 2  # never of the fourth stage's 12
        assert (tensor - mean).abs().max() < 1e-6, name

    # the small type's clients change nothing, so its top moves by the momentum alone
    send(server, config, "b", {0: 0.0, 1: 0.0, 2: 0.0, "head": 0.0}, 1)
    server.commit(2)
    after = server.cut(Cut(config.levels["b"]))
    places = server._type(config.levels["b"]).places
    for name, tensor in before.items():
        if name in places and places[name].block == 2:
            step = Adam()(BETA * float(momenta[places[name].name].mean()))
            assert (after[name] - tensor - step).abs().max() < 1e-6, name


class _Apart(SubGlobalModels):
    """No distillation: no type knows another."""

    def _neighbours(self, kind: inclusivefl.DeviceType) -> tuple[None, None]:
        return None, None


def test_beta_0_is_no_distillation_bit_for_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    config = ExperimentConfig.from_dict({**SMALL, **CONV, "rounds": 3})
    without = run(config.override(["inclusivefl.beta=0"]))
    monkeypatch.setattr(InclusiveFL, "server", _Apart)
    apart = run(config)
    assert without.summary["model_sha256"] == apart.summary["model_sha256"]
    monkeypatch.undo()
    with_it = run(config)
    assert with_it.summary["model_sha256"] != apart.summary["model_sha256"]
    assert with_it.summary["global"] != apart.summary["global"]


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"data": "entities", "partition": "classes:2"},
        {"data": "digits", "model": "preresnet18", "network": {"hidden": [4, 8, 8, 12]}},
        {**CONV, "mix": "a-b-c-d-e", "partition": "classes:2"},
        {"data": "digits", "model": "mlp", "network": {"hidden": [8, 8]}},
        {"data": "pydocs", "model": "transformer", "fraction": 0.1},
    ],
    ids=lambda changed: str(changed.get("model", changed.get("data", "sentences"))),
)
def test_runs_and_models_come_back_from_the_folder(changed: dict[str, Any]) -> None:
    result = run(ExperimentConfig.from_dict({**SMALL, **changed}))
    assert set(result.summary["levels"]) == {level.name for level in result.config.levels.levels}
    again = type(result).open(Path(result.summary["run_dir"]))
    sizes = []
    for level in again.config.levels.levels:
        model = again.submodel(level.name)
        sizes.append(sum(p.numel() for p in model.parameters()))
        assert all(torch.isfinite(p).all() for p in model.parameters())
        assert level.depth == max(
            place.block for place in registry.places(again.spec.at(level), level.rate).values()
        )
    assert sizes == sorted(sizes, reverse=True)


def test_report_and_export_of_a_shallow_level(tmp_path: Path) -> None:
    result = run(ExperimentConfig.from_dict({**SMALL, "rounds": 1}))
    folder = str(result.summary["run_dir"])
    out = str(tmp_path / "c.safetensors")
    assert main(["export", folder, "--level", "c", "--format", "safetensors", "--out", out]) == 0
    assert main(["report", folder]) == 0


def test_it_learns() -> None:
    config = ExperimentConfig.from_dict(
        {
            **SMALL,
            **CONV,
            "network": {"hidden": [32, 32, 32]},
            "rounds": 5,
            "local_epochs": 3,
            "lr": 0.05,
        }
    )
    levels = run(config).summary["levels"]
    assert levels["a"]["accuracy"] > 60


def test_settling_twice_changes_nothing_and_says_what_was_chosen() -> None:
    config = small()
    assert InclusiveFL.settle(config) == config
    assert config.inclusivefl.depths == (3, 2, 1)
    assert config.server.optimizer == "adam"
    assert small(server={"optimizer": "yogi"}).server.optimizer == "yogi"


def test_what_it_cannot_do() -> None:
    with pytest.raises(ConfigError, match=r"inclusivefl.depths=\[4, 2, 1\].*model=encoder has 3"):
        small(inclusivefl={"depths": [4, 2, 1]})
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry.MODELS, "own", registry.Family(lambda rate: None))
        with pytest.raises(ConfigError, match="method=inclusivefl is for conv"):
            small(model="own")
