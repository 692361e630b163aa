"""Training ends when the model no longer gets better, with the best it was."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from heterofl_ray.clients.early_stopping import EarlyStopping
from heterofl_ray.clients.losses import Objective
from heterofl_ray.clients.trainers.plain import PlainTrainer
from heterofl_ray.setting_groups import OptimizerConfig


class Count(nn.Module):
    """Its one parameter counts the steps of SGD at rate 1 when the loss is minus the output."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.Parameter(torch.zeros(()))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.steps * inputs


def course(losses: list[float], epochs: int, patience: int) -> tuple[EarlyStopping, float, Count]:
    """Two steps a pass; the loss after the n-th pass is as given, and sees the steps so far."""
    model, seen = Count(), list[float]()

    def loss() -> float:
        seen.append(float(model.steps.detach()))
        model.eval()
        return losses[len(seen) - 1]

    def one_pass() -> list[tuple[torch.Tensor, torch.Tensor]]:
        return [(torch.ones(1), torch.zeros(1))] * 2

    stopping = EarlyStopping(model, one_pass, loss, epochs, patience)
    trainer = PlainTrainer(OptimizerConfig(momentum=0, weight_decay=0, clip_norm=0))
    objective = Objective(lambda outputs, targets, client: -outputs.sum(), None)
    trainer.train(model, stopping.batches(), objective, 1.0)
    assert seen == [2.0 * (n + 1) for n in range(len(seen))], "looked at in the midst of a pass"
    assert model.training
    return stopping, float(model.steps.detach()), model


@pytest.mark.parametrize(
    ("losses", "epochs", "patience", "passes", "best"),
    [
        ([3, 2, 1, 0.5], 4, 1, 4, 4),  # better each time: to the end
        ([3, 2, 2, 1], 4, 1, 3, 2),  # as good is not better
        ([3, 2, 4, 1, 5], 5, 2, 5, 4),  # patience outlasts a hill
        ([3, 2, 4, 5, 0], 5, 2, 4, 2),
        ([1, float("nan"), float("nan")], 5, 2, 3, 1),
    ],
)
def test_the_course(
    losses: list[float], epochs: int, patience: int, passes: int, best: int
) -> None:
    stopping, steps, _ = course(losses, epochs, patience)
    assert len(stopping.losses) == passes
    assert steps == 2 * passes
    assert float(stopping.best["steps"]) == 2 * best
