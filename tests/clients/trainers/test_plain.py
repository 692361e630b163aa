from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from heterofl_ray.clients.losses import Objective
from heterofl_ray.clients.trainers.plain import PlainTrainer
from heterofl_ray.setting_groups import OptimizerConfig

SQUARED = Objective(lambda outputs, targets, _: F.mse_loss(outputs, targets), None)


def one_weight(value: float) -> nn.Linear:
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, value)
    return model


def steps(x: float, y: float, count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.tensor([[x]]), torch.tensor([[y]]))] * count


def test_two_steps_of_momentum_and_weight_decay_by_hand() -> None:
    """loss (w - 3)^2 at w = 1: gradient 2(w - 3); decay 0.5, momentum 0.5, rate 0.1."""
    model = one_weight(1.0)
    settings = OptimizerConfig(momentum=0.5, weight_decay=0.5, clip_norm=0)
    loss = PlainTrainer(settings).train(model, steps(1.0, 3.0, 2), SQUARED, lr=0.1)
    velocity = -4 + 0.5 * 1  # first: gradient + decay
    w = 1 - 0.1 * velocity  # 1.35
    velocity = 0.5 * velocity + (2 * (w - 3) + 0.5 * w)
    assert model.weight.item() == pytest.approx(w - 0.1 * velocity, rel=1e-6)
    assert loss == pytest.approx(((1 - 3) ** 2 + (1.35 - 3) ** 2) / 2, rel=1e-6)


def test_gradients_are_clipped_before_the_step_and_before_decay() -> None:
    model = one_weight(1.0)
    settings = OptimizerConfig(momentum=0, weight_decay=0.5, clip_norm=1.0)
    PlainTrainer(settings).train(model, steps(1.0, 3.0, 1), SQUARED, lr=0.1)
    assert model.weight.item() == pytest.approx(1 - 0.1 * (-1 + 0.5), rel=1e-5)


def test_mean_loss_weighs_batches_by_their_examples() -> None:
    model = one_weight(0.0)
    batches = [
        (torch.zeros(3, 1), torch.ones(3, 1)),
        (torch.zeros(1, 1), torch.full((1, 1), 3.0)),
    ]
    assert PlainTrainer(OptimizerConfig()).train(model, batches, SQUARED, lr=0.1) == pytest.approx(
        3.0
    )


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw", "rmsprop", "adagrad"])
def test_every_optimiser_lowers_the_loss(name: str) -> None:
    model = one_weight(0.0)
    PlainTrainer(OptimizerConfig(name=name)).train(model, steps(1.0, 3.0, 50), SQUARED, lr=0.05)
    assert (model.weight.item() - 3) ** 2 < 9
