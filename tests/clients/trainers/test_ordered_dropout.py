"""FjORD's steps: which part of a model each trains, and what it is taught."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from heterofl_ray.clients.losses import Objective
from heterofl_ray.clients.trainers.ordered_dropout import (
    OrderedDropoutTrainer,
    Width,
    distillation,
)
from heterofl_ray.clients.trainers.plain import PlainTrainer
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.sequence_draft import IGNORED
from heterofl_ray.method_settings import FjordConfig
from heterofl_ray.models.layers import assign, parameters_of
from heterofl_ray.parameter_server import ParameterServer
from heterofl_ray.setting_groups import OptimizerConfig
from heterofl_ray.submodels.plan import SubmodelPlan
from heterofl_ray.submodels.selectors import Cut, leading

CPU = torch.device("cpu")
SGD = OptimizerConfig(momentum=0, weight_decay=0)


class Drawn(np.random.Generator):
    """Gives the widths that a test wants."""

    def __init__(self, widths: list[int]) -> None:
        super().__init__(np.random.PCG64(0))
        self.widths = widths

    def integers(self, *_: object) -> int:  # type: ignore[override]
        return self.widths.pop(0)


def make(bench: Workbench, widths: list[int], **method: float) -> OrderedDropoutTrainer:
    levels = bench.config.levels.levels
    own = bench.layout(levels[0])
    plans = [SubmodelPlan.of(own, leading(own, bench.layout(level))) for level in levels]
    models = [Width(bench.model(level), p) for level, p in zip(levels, plans, strict=True)]
    return OrderedDropoutTrainer(
        SGD,
        torch.float32,
        widths=models,
        random=Drawn(widths),
        method=FjordConfig.from_dict(method),
    )


def setup(tiny: ExperimentConfig, root: Path) -> tuple[Workbench, dict[str, torch.Tensor], list]:  # type: ignore[type-arg]
    bench = Workbench(tiny, root, CPU)
    start = ParameterServer(bench).cut(Cut(tiny.levels.largest))
    random = bench.streams.torch("batches", 1, 0)
    batches = list(bench.data.training_batches(0, 10, random, CPU))
    assign(bench.model(tiny.levels.largest), start)
    return bench, start, batches


def test_a_narrow_step_is_the_narrow_models_and_leaves_the_rest(
    tiny: ExperimentConfig, data_root: Path
) -> None:
    bench, start, batches = setup(tiny, data_root)
    wide, narrow = tiny.levels.levels
    trainer, objective = make(bench, [1, 1]), Objective.masked(None, 10, CPU)
    trainer.train(bench.model(wide), batches[:2], objective, 0.1)
    found = parameters_of(bench.model(wide))
    plan = trainer.widths[1].plan
    expected = {name: tensor.clone() for name, tensor in start.items()}
    assign(bench.model(narrow), plan.extract(start))
    PlainTrainer(SGD).train(bench.model(narrow), batches[:2], objective, 0.1)
    plan.scatter(expected, parameters_of(bench.model(narrow)))
    assert all(torch.allclose(found[n], t, rtol=0, atol=1e-7) for n, t in expected.items())
    assert not torch.equal(found["classifier.bias"], start["classifier.bias"])


def test_steps_of_full_width_are_the_plain_trainers(
    tiny: ExperimentConfig, data_root: Path
) -> None:
    bench, start, batches = setup(tiny, data_root)
    wide, objective = tiny.levels.largest, Objective.masked(None, 10, CPU)
    losses, found = [], []
    for trainer in (make(bench, [0] * 99, distillation=0.5), PlainTrainer(SGD)):
        assign(bench.model(wide), start)
        losses.append(trainer.train(bench.model(wide), batches, objective, 0.1))
        found.append(parameters_of(bench.model(wide)))
    assert losses[0] == losses[1]
    assert all(torch.equal(found[0][name], found[1][name]) for name in start)


def test_distillation_by_hand() -> None:
    # teacher (0.75, 0.25), student (0.5, 0.5): KL = 0.75 ln 1.5 + 0.25 ln 0.5
    teacher, student = torch.tensor([[math.log(3.0), 0.0]]), torch.zeros(1, 2)
    by_hand = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    assert distillation(student, teacher, 1.0).item() == pytest.approx(by_hand, rel=1e-6)
    # at temperature 2 a teacher of 2 ln 3 answers the same, and the divergence counts fourfold
    assert distillation(student, 2 * teacher, 2.0).item() == pytest.approx(4 * by_hand, rel=1e-6)


def test_a_taught_step_trains_both_widths_and_the_teacher_is_not_taught(
    tiny: ExperimentConfig, data_root: Path
) -> None:
    bench, start, batches = setup(tiny, data_root)
    trainer = make(bench, [1], distillation=0.3, temperature=2.0)
    inputs, targets = batches[0]
    for width in trainer.widths:
        width.model.train()
    model, objective = bench.model(tiny.levels.largest), Objective.masked(None, 10, CPU)
    model.zero_grad()
    trainer.loss(model, objective, inputs, targets).backward()  # type: ignore[no-untyped-call]
    found = {name: parameter.grad for name, parameter in model.named_parameters()}

    again = {name: tensor.clone().requires_grad_() for name, tensor in start.items()}
    full = trainer.widths[0].outputs(again, inputs, torch.float32)
    narrow = trainer.widths[1].outputs(again, inputs, torch.float32)
    soft = torch.softmax(full.detach() / 2, -1)
    kl = (soft * (soft.log() - torch.log_softmax(narrow / 2, -1))).sum(-1).mean()
    (objective(full, targets) + 0.7 * objective(narrow, targets) + 0.3 * 4 * kl).backward()
    for name, leaf in again.items():
        assert leaf.grad is not None
        assert torch.allclose(found[name], leaf.grad, rtol=1e-5, atol=1e-7)  # type: ignore[arg-type]


class Says(Width):
    """A width that gives these answers, whatever it is asked."""

    def __init__(self, answers: torch.Tensor) -> None:
        super().__init__(torch.nn.Module(), SubmodelPlan({}))
        object.__setattr__(self, "answers", answers.requires_grad_())

    def outputs(self, *_: object) -> torch.Tensor:
        return self.answers  # type: ignore[attr-defined, no-any-return]


def taught(
    wanted: list[object], said: list[object], targets: list[object], objective: Objective
) -> tuple[float, torch.Tensor]:
    """The loss of a narrow step that is distillation alone, and its slope in what was said."""
    widths = [Says(torch.tensor(answers)) for answers in (wanted, said)]
    trainer = OrderedDropoutTrainer(
        SGD, widths=widths, random=Drawn([1]), method=FjordConfig(distillation=1.0)
    )
    loss = trainer.loss(torch.nn.Module(), objective, torch.zeros(1), torch.tensor(targets))
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.item(), widths[1].answers.grad  # type: ignore[attr-defined]


LN3 = math.log(3.0)
APART = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
"""From the answers (ln 3, 0), three quarters and a quarter, to (0, 0), halves."""


def test_what_pads_tagged_words_is_not_distilled() -> None:
    """One word with a tag, one without: only the first is in the loss and in the mean."""
    wanted, said = [[[LN3, 0.0], [0.0, 9.0]]], [[[0.0, 0.0], [9.0, 0.0]]]
    loss, slope = taught(wanted, said, [[0, IGNORED]], Objective.masked(None, 2, CPU))
    assert loss == pytest.approx(-math.log(0.75) + APART, rel=1e-6)
    assert slope[0, 1].tolist() == [0.0, 0.0]
    assert slope[0, 0].tolist() == pytest.approx([-0.25, 0.25])  # halves less what is wanted


def test_labels_that_a_client_lacks_are_not_distilled() -> None:
    """Label 2 is absent: 0 in the loss, which then has 1 + 3 + 1 below, and not taught at all."""
    wanted, said = [[LN3, 0.0, 9.0]], [[0.0, 0.0, -9.0]]
    held = torch.tensor([0, 1])
    loss, slope = taught(wanted, said, [0], Objective.masked(held, 3, CPU))
    assert loss == pytest.approx(-math.log(3 / 5) + APART, rel=1e-6)
    assert slope.tolist() == [pytest.approx([-0.25, 0.25, 0.0])]
    # a client that has only the rows of its own words gets the very same
    rows = taught([wanted[0][:2]], [said[0][:2]], [0], Objective.sliced(1, CPU))
    assert rows[0] == pytest.approx(loss, rel=1e-6)
    assert torch.allclose(rows[1], slope[:, :2])
