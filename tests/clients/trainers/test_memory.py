"""An optimiser that goes on is one that never stopped."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from heterofl_ray.clients.losses import Objective, masked_cross_entropy
from heterofl_ray.clients.trainers.channels_last import ChannelsLastTrainer
from heterofl_ray.clients.trainers.plain import PlainTrainer
from heterofl_ray.setting_groups import OptimizerConfig

BATCHES = [
    (torch.randn(5, 2, 4, 4, generator=torch.manual_seed(n)), torch.arange(5) % 3) for n in range(4)
]


def make_model() -> nn.Module:
    torch.manual_seed(7)
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3))


def _pairs(one: nn.Module, other: nn.Module) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return list(zip(one.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("kind", [PlainTrainer, ChannelsLastTrainer])
@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "rmsprop", "adagrad"])
def test_two_halves_are_the_whole(name: str, kind: type[PlainTrainer]) -> None:
    settings, objective = OptimizerConfig(name=name), Objective(masked_cross_entropy, None)
    whole, halves, anew = make_model(), make_model(), make_model()
    kind(settings).train(whole, BATCHES, objective, 0.01)
    memory: dict[str, torch.Tensor] = {}
    for part in (BATCHES[:2], BATCHES[2:]):
        kind(settings, memory=memory).train(halves, part, objective, 0.01)
        kind(settings).train(anew, part, objective, 0.01)
    assert all(torch.equal(a, b) for a, b in _pairs(whole, halves))
    same = [torch.equal(a, b) for a, b in _pairs(whole, anew)]
    assert not all(same), "these settings need no memory: the test shows nothing"
    assert {key.rsplit("/")[0] for key in memory} == {n for n, _ in whole.named_parameters()}
