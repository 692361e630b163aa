"""The whole training step as native code: forward, backward, clipping and update in one piece.

Made for the full batches of one level; a shorter last batch takes the same step uncompiled. Rows of
a client's own words may be any number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from heterofl_ray.clients.losses import Objective
from heterofl_ray.clients.trainers import packages
from heterofl_ray.clients.trainers.base import Batch, mean_loss
from heterofl_ray.clients.trainers.convolutions import laid_out
from heterofl_ray.clients.trainers.step import Step, TapedStep
from heterofl_ray.setting_groups import OptimizerConfig

TYPICAL_LABELS = 1000
"""For which code is made that serves any number. It is the same code whoever has it made first."""


@dataclass
class CompiledTrainer:
    settings: OptimizerConfig
    recipe: str
    """Says what the model is, where its parameters' shapes do not."""
    batch: tuple[int, ...]
    """The shape of a full batch's inputs."""
    threads: int
    tokens: bool = False
    """Whether inputs are numbers of tokens, each with a target of its own."""
    varying: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """By a parameter's name, its axes that are as long as a client has labels, and so much more."""
    _run: dict[Path, packages.Run] = field(default_factory=dict)

    def train(
        self, model: nn.Module, batches: Iterable[Batch], objective: Objective, lr: float
    ) -> float:
        model.train()
        step = self._step(model, objective)
        own = [parameter.detach() for parameter in model.parameters()]
        parameters = [laid_out(parameter) for parameter in own]
        momenta = step.start(parameters)
        rate = parameters[0].new_tensor(lr)
        state = [*parameters, *momenta, rate]
        if objective.client is not None:
            state.append(objective.client)
        compiled = self.ready(model, objective)
        losses, sizes = [], []
        for inputs, targets in batches:
            if tuple(inputs.shape) == self.batch:
                (loss,) = compiled([*state, inputs.contiguous(), targets])
            else:
                loss = step(parameters, momenta, inputs, targets, rate, objective.client)
            losses.append(loss)
            sizes.append(targets.numel())
        for parameter, trained in zip(own, parameters, strict=True):
            parameter.copy_(trained)
        return mean_loss(losses, sizes)

    def prepare(self, model: nn.Module, objective: Objective) -> None:
        self.ready(model, objective)

    def ready(self, model: nn.Module, objective: Objective) -> packages.Run:
        """The compiled step, compiled now if this machine never did."""
        path = self.path(objective)
        if path not in self._run:
            if not path.exists():
                self._make(model, objective, path)
            self._run[path] = packages.load(path)
        return self._run[path]

    def path(self, objective: Objective) -> Path:
        masked = "" if objective.client is None else " masked"
        loss = f"{objective.function.__name__}{masked}"
        recipe = f"{self.recipe} {self.settings} {self.batch} {loss}"
        return packages.path_of(recipe, self.threads)

    def _make(self, model: nn.Module, objective: Objective, path: Path) -> None:
        packages.make(*self._example(model, objective), path, self.threads)

    def graph(self, model: nn.Module, objective: Objective) -> str:
        """What a step computes, in words: names a model whose code is not ours."""
        return packages.trace(*self._example(model, objective)).graph.code

    def _step(self, model: nn.Module, objective: Objective) -> Step:
        kind = TapedStep if self.varying else Step
        return kind(model, objective.function, self.settings)

    def _example(
        self, model: nn.Module, objective: Objective
    ) -> tuple[Callable[..., Tensor], packages.Example]:
        """The step as a function of tensors alone, and tensors of the right shapes."""
        model.train()
        step = self._step(model, objective)
        names = step.names
        count = len(names)
        with_momenta = bool(self.settings.momentum)

        def flat(*tensors: Tensor) -> Tensor:
            parameters, rest = tensors[:count], list(tensors[count:])
            momenta = [rest.pop(0) for _ in range(count)] if with_momenta else []
            targets, inputs, rate = rest.pop(), rest.pop(), rest.pop(0)
            return step(parameters, momenta, inputs, targets, rate, rest[0] if rest else None)

        parameters = [
            laid_out(torch.zeros(self._shape(name, parameter), dtype=parameter.dtype))
            for name, parameter in model.named_parameters()
        ]
        changed = [*parameters, *step.start(parameters)]
        dtype = parameters[0].dtype
        example = [*changed, torch.zeros((), dtype=dtype)]
        if objective.client is not None:
            example.append(torch.zeros_like(objective.client))
        example.append(torch.zeros(self.batch, dtype=torch.long if self.tokens else dtype))
        each = self.batch if self.tokens else self.batch[:1]
        example.append(torch.zeros(each, dtype=torch.long))
        varying = {
            number: tuple(self.varying[names[number % count]])
            for number in range(len(changed))
            if names[number % count] in self.varying
        }
        return flat, packages.Example(example, varying)

    def _shape(self, name: str, parameter: Tensor) -> list[int]:
        """A parameter's, whichever client's rows the model has at the moment."""
        shape = list(parameter.shape)
        for axis, extra in self.varying.get(name, {}).items():
            shape[axis] = TYPICAL_LABELS + extra
        return shape
