"""A batch's moments as native code, where a level's training is compiled too.

Such code is at its best with batches as small as those of training, so that the paper's averages
over batches of ten cost no more than anything else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from heterofl_ray.clients.calibration import Contribution, contribution
from heterofl_ray.clients.trainers import packages
from heterofl_ray.clients.trainers.choice import chosen
from heterofl_ray.clients.trainers.convolutions import laid_out
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.mixes import Level
from heterofl_ray.models import registry

EAGER_BATCH = 100


@dataclass(frozen=True)
class CompiledMoments:
    """`calibration.contribution` for batches of one shape."""

    run: Callable[[list[Tensor]], list[Tensor]]
    batch: tuple[int, ...]
    pooled: bool

    def of(self, model: nn.Module) -> Contribution:
        """With the parameters that the model has now."""
        parameters = [laid_out(parameter.detach()) for parameter in model.parameters()]

        def contribute(inputs: Tensor) -> Tensor:
            if tuple(inputs.shape) != self.batch:
                return contribution(model, inputs, self.pooled)
            (moments,) = self.run([*parameters, inputs.contiguous()])
            return moments

        return contribute


def is_pooled(bench: Workbench) -> bool:
    return bench.config.evaluation.calibrate == "pooled"


def calibration_batch(bench: Workbench, level: Level) -> int:
    """Examples that a level's statistics are gathered from at once."""
    given = bench.config.evaluation.calibration_batch_size
    if is_pooled(bench) and given:
        return given
    small = not is_pooled(bench) or chosen(bench, level) == "compiled"
    return bench.config.batch_size if small else EAGER_BATCH


def compiled_moments(bench: Workbench, level: Level) -> CompiledMoments | None:
    """The compiled form, made now if this machine never did; None where training is not."""
    if chosen(bench, level) != "compiled":
        return None
    pooled, model = is_pooled(bench), bench.model(level)
    batch = (calibration_batch(bench, level), *bench.data.input_shape)
    parameters = [laid_out(torch.zeros(p.shape, dtype=p.dtype)) for p in model.parameters()]
    example = packages.Example([*parameters, torch.zeros(batch, dtype=parameters[0].dtype)])
    names = [name for name, _ in model.named_parameters()]

    def flat(*tensors: Tensor) -> Tensor:
        named = dict(zip(names, tensors[:-1], strict=True))

        def forward(inputs: Tensor) -> None:
            torch.func.functional_call(model, named, (inputs,))

        return contribution(model, tensors[-1], pooled, forward)

    spec = bench.spec.at(level)
    largest = bench.config.levels.largest
    recipe = f"moments {pooled} {batch} {spec} at {level.rate} of {largest.rate}"
    if not isinstance(registry.family(bench.config.model).factory, str):
        # a user's model is known by what it computes
        recipe += packages.trace(flat, example).graph.code
    path = packages.path_of(recipe, bench.config.execution.threads)
    if not path.exists():
        packages.make(flat, example, path, bench.config.execution.threads)
    return CompiledMoments(packages.load(path), batch, pooled)


def kept_moments(bench: Workbench, level: Level) -> CompiledMoments | None:
    """The same, made when they are first asked for."""
    return bench.keep(f"moments {level}", compiled_moments, level)
