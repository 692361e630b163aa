"""What a level costs: parameters, FLOPs in the paper's convention and honestly counted, space.

Models are built on torch's meta device, so nothing is computed or allocated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from heterofl_ray.mixes import Mix
from heterofl_ray.models import registry
from heterofl_ray.models.layers import StaticBatchNorm
from heterofl_ray.models.outlines import shapes_only
from heterofl_ray.models.spec import ModelSpec

_NORMS = (StaticBatchNorm, nn.LayerNorm, nn.GroupNorm, nn.modules.batchnorm._BatchNorm)


@dataclass(frozen=True)
class Costs:
    """Of one model, for one example (text: one row of a window's tokens)."""

    parameters: float
    flops_paper: float
    flops: float

    @property
    def space_mb(self) -> float:
        """Megabytes of float32 parameters: what is stored, and moved each way in a round."""
        return self.parameters * 4 / 1024**2


def model_costs(spec: ModelSpec, rate: float) -> Costs:
    """Costs of one forward pass of the model at ``rate``."""
    with shapes_only():
        model = registry.build(spec, rate)
        if registry.family(spec.name).task != "images":
            example = torch.zeros(1, *spec.input_shape, dtype=torch.long)
        else:
            example = torch.zeros(1, *spec.input_shape)
    paper = 0

    def count(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal paper
        paper += _paper_flops(module, inputs[0], output)

    hooks = [module.register_forward_hook(count) for module in model.modules()]
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(example)
    for hook in hooks:
        hook.remove()
    return Costs(
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        flops_paper=paper,
        flops=counter.get_total_flops(),
    )


def mix_costs(mix: Mix, costs: Sequence[Costs]) -> Costs:
    """The average client's costs: each level's, weighed by its share."""

    def mean(values: Sequence[float]) -> float:
        return sum(share * value for share, value in zip(mix.shares, values, strict=True))

    return Costs(
        parameters=mean([c.parameters for c in costs]),
        flops_paper=mean([c.flops_paper for c in costs]),
        flops=mean([c.flops for c in costs]),
    )


def _paper_flops(module: nn.Module, x: Tensor, y: Tensor) -> int:
    """The paper's count: a layer's multiply-adds, once for each parameter tensor the layer has."""
    match module:
        case nn.Conv2d():
            per_output = module.weight[0].numel() + (module.bias is not None)
            layer = y.numel() * per_output
        case nn.Linear():
            layer = y.numel() * module.in_features
        case _ if isinstance(module, _NORMS):
            layer = 2 * x.numel()
        case _:
            return 0
    return layer * len(list(module.parameters(recurse=False)))
