"""FedProx's step by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from heterofl_ray.clients.losses import Objective
from heterofl_ray.clients.trainers.channels_last import ChannelsLastTrainer
from heterofl_ray.clients.trainers.plain import PlainTrainer
from heterofl_ray.clients.trainers.proximal import ProximalTrainer
from heterofl_ray.setting_groups import OptimizerConfig

SGD = OptimizerConfig(momentum=0, weight_decay=0, clip_norm=0)


def slope_of_one(logits: Tensor, targets: Tensor, client: Tensor | None) -> Tensor:
    """Its gradient is 1 for the weight, whatever the weight is."""
    return logits.sum()


def train(trainer: ProximalTrainer, steps: int, lr: float) -> tuple[float, float]:
    """A weight that begins at 2 and an input of 1."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 2.0)
    batches = [(torch.ones(1, 1), torch.zeros(1))] * steps
    loss = trainer.train(model, batches, Objective(slope_of_one, None), lr)
    return model.weight.item(), loss


def test_the_pull_by_hand() -> None:
    # w0 = 2, lr 0.5, mu 0.4: the first gradient is 1 + 0, so w = 1.5;
    # the second 1 + 0.4 * (1.5 - 2) = 0.8, so w = 1.1; the third 1 + 0.4 * (1.1 - 2) = 0.64
    weight, _ = train(ProximalTrainer(PlainTrainer(SGD), mu=0.4), steps=3, lr=0.5)
    assert weight == pytest.approx(1.1 - 0.32, rel=1e-6)


def test_the_loss_it_tells_is_the_whole_one() -> None:
    # 2, then 1.5 + 0.2 * 0.25
    _, loss = train(ProximalTrainer(PlainTrainer(SGD), mu=0.4), steps=2, lr=0.5)
    assert loss == pytest.approx((2 + 1.55) / 2, rel=1e-6)


@pytest.mark.parametrize("inner", [PlainTrainer(SGD), ChannelsLastTrainer(SGD)])
def test_without_pull_it_is_the_trainer_within(inner: PlainTrainer) -> None:
    def trained(trainer: PlainTrainer | ProximalTrainer) -> list[Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Flatten(), nn.Linear(12, 4))
        batches = [(torch.randn(2, 1, 4, 4), torch.tensor([1, 3])) for _ in range(3)]
        objective = Objective.masked(None, 4, torch.device("cpu"))
        trainer.train(model, batches, objective, 0.1)
        return [parameter.detach() for parameter in model.parameters()]

    pairs = zip(trained(inner), trained(ProximalTrainer(inner, mu=0.0)), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    pairs = zip(trained(inner), trained(ProximalTrainer(inner, mu=1.0)), strict=True)
    assert not any(torch.equal(one, other) for one, other in pairs)
