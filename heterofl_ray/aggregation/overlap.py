"""Overlap averaging, in place: equations (1) to (3) of the HeteroFL paper.

Every element of the global model becomes the mean over the clients whose sub-model holds it;
an element that no client held keeps its value. Sums are added where a plan says. Counts need no
tensor per client: they are added once per group of clients that share a plan, with one number per
label on label axes.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from heterofl_ray.models.layout import Fixed, Labels, Layout
from heterofl_ray.submodels.plan import SubmodelPlan, add_at

Parameters = Mapping[str, Tensor]


class OverlapMean:
    """Sums and counts of one round, kept on the global model's device and reused every round."""

    def __init__(
        self, layout: Layout, parameters: Parameters, dtype: torch.dtype = torch.float32
    ) -> None:
        self.layout = layout
        self.sums = {
            name: torch.zeros_like(tensor, dtype=dtype) for name, tensor in parameters.items()
        }
        # No client holds part of an axis that is never cut, so one count serves all of it.
        self.counts = {
            name: tensor.new_zeros(
                [1 if isinstance(axis, Fixed) else axis.width for axis in layout[name]],
                dtype=dtype,
            )
            for name, tensor in parameters.items()
        }

    def add(
        self,
        plan: SubmodelPlan,
        sums: Parameters,
        weight: float,
        label_weights: Tensor | None = None,
    ) -> None:
        """Add the summed parameters of clients that share ``plan``.

        ``weight`` is their total weight. Where the plan is restricted to labels,
        ``label_weights`` gives for each of its labels the weight of the clients that hold it.
        """
        plan.add(self.sums, sums)
        for name, chosen in plan.selections.items():
            held = torch.full([1] * len(chosen), weight, device=self.counts[name].device)
            for place, axis in enumerate(self.layout[name]):
                if isinstance(axis, Labels) and label_weights is not None:
                    held = _along(place, len(chosen), label_weights, axis.extra, weight)
            add_at(self.counts[name], chosen, held)

    def commit(self, parameters: Parameters) -> None:
        """Write the means into ``parameters`` in place, then `clear`."""
        for name, parameter in parameters.items():
            counts = self.counts[name]
            means = self.sums[name].div_(counts)
            torch.where(counts > 0, means.to(parameter.dtype), parameter, out=parameter)
        self.clear()

    def clear(self) -> None:
        """Start again from zero."""
        for tensor in (*self.sums.values(), *self.counts.values()):
            tensor.zero_()


def _along(place: int, axes: int, label_weights: Tensor, extra: int, weight: float) -> Tensor:
    """Weights per label, then the full weight for the entries everyone holds, along one axis."""
    held = torch.cat([label_weights, label_weights.new_full([extra], weight)])
    return held.view([-1 if axis == place else 1 for axis in range(axes)])
