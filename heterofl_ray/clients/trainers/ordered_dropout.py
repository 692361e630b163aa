"""FjORD's local steps: each trains the leading part of the client's model, of a width drawn anew.

One optimiser serves the client's whole model: what a step's width leaves out has no gradient in it
but keeps its momentum and its weight decay.

With distillation ``a`` above 0 a step's loss is that of the client's full width, plus (1 - a) times
the drawn width's, plus a T² KL(full width's answers | drawn width's) at temperature T; the full
width is not taught by the narrow one. Answers are those that the loss asks for: of tagged words and
not of what pads them, and among the labels that the client holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heterofl_ray.clients.losses import Objective, masked_cross_entropy
from heterofl_ray.clients.trainers.base import Batch, lower
from heterofl_ray.clients.trainers.plain import PlainTrainer
from heterofl_ray.data.sequence_draft import IGNORED
from heterofl_ray.method_settings import FjordConfig
from heterofl_ray.submodels.plan import SubmodelPlan


@dataclass(frozen=True)
class Width:
    """A model of some width, and which part of the client's model it is."""

    model: nn.Module
    plan: SubmodelPlan

    def outputs(
        self, parameters: Mapping[str, Tensor], inputs: Tensor, precision: torch.dtype
    ) -> Tensor:
        part = self.plan.extract(parameters)
        with lower(precision, inputs.device):
            outputs: Tensor = torch.func.functional_call(self.model, part, (inputs,))
        return outputs.to(next(iter(part.values())).dtype)


@dataclass(frozen=True, kw_only=True)
class OrderedDropoutTrainer(PlainTrainer):
    """The plain trainer's steps, each with the loss of a drawn width."""

    widths: Sequence[Width]
    """The client's own, then all that are narrower."""
    random: np.random.Generator
    method: FjordConfig

    def train(
        self, model: nn.Module, batches: Iterable[Batch], objective: Objective, lr: float
    ) -> float:
        for width in self.widths:
            width.model.train()
        return super().train(model, batches, objective, lr)

    def loss(
        self, model: nn.Module, objective: Objective, inputs: Tensor, targets: Tensor
    ) -> Tensor:
        parameters = dict(model.named_parameters())
        drawn = self.widths[int(self.random.integers(len(self.widths)))]
        answers = drawn.outputs(parameters, inputs, self.precision)
        own, share = self.widths[0], self.method.distillation
        if not share or drawn is own:
            return objective(answers, targets)
        taught = own.outputs(parameters, inputs, self.precision)
        narrow = (1 - share) * objective(answers, targets)
        said, wanted = (asked(each, targets, objective) for each in (answers, taught.detach()))
        distance = distillation(said, wanted, self.method.temperature)
        return objective(taught, targets) + narrow + share * distance


def asked(answers: Tensor, targets: Tensor, objective: Objective) -> Tensor:
    """A row for each position that has a target, of the labels that the client holds.

    (With a sliced vocabulary there are no others.)
    """
    answers = answers[targets != IGNORED]
    absent = objective.client
    if objective.function is not masked_cross_entropy or absent is None:
        return answers
    return answers[:, ~absent]


def distillation(logits: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """T² KL(teacher | student) of answers at temperature T, the mean over examples."""
    student = F.log_softmax(logits.flatten(0, -2) / temperature, -1)
    wanted = F.log_softmax(teacher.flatten(0, -2) / temperature, -1)
    divergence = F.kl_div(student, wanted, reduction="batchmean", log_target=True)
    return temperature**2 * divergence
