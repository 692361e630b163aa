"""Steps of our own SGD are those of torch's class, bit for bit."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from heterofl_ray.clients.trainers.optimizers import Optimizer, Sgd

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def make_model(device: str) -> nn.ModuleList:
    """Of whose layers the last gets no gradient."""
    torch.manual_seed(3)
    return nn.ModuleList([nn.Linear(5, 4), nn.Linear(4, 3), nn.Linear(2, 2)]).to(device)


def take_steps(model: nn.ModuleList, optimizer: Optimizer, device: str) -> None:
    draws = torch.Generator().manual_seed(5)
    for _ in range(4):
        optimizer.zero_grad()
        inputs = torch.randn(6, 5, generator=draws).to(device)
        model[1](model[0](inputs).tanh()).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("decay", [0.0, 5e-4])
def test_the_same_bits_as_torchs_own(momentum: float, decay: float, device: str) -> None:
    ours, theirs = make_model(device), make_model(device)
    mine = Sgd(ours.parameters(), 0.03, momentum, decay)
    reference = torch.optim.SGD(theirs.parameters(), 0.03, momentum=momentum, weight_decay=decay)
    take_steps(ours, mine, device)
    take_steps(theirs, reference, device)
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(one, other)
        assert set(mine.state[one]) == set(reference.state[other])
        for name, speed in mine.state[one].items():
            assert torch.equal(speed, reference.state[other][name])
    assert not torch.equal(ours[0].weight, make_model(device)[0].weight)
    assert torch.equal(ours[2].weight, make_model(device)[2].weight)
