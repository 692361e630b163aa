"""Overlap averaging, in place: equations (1) to (3) of the HeteroFL paper.

Every element of the global model becomes the mean over the clients whose sub-model holds it;
an element that no client held keeps its value. Sums are added where a plan says. Counts need no
tensor per client: an element's count is the weight of the clients whose plan holds it, so weights
are noted per plan and written out once a round. Only label rows are counted one by one, for
clients that hold some of the labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from heterofl_ray.aggregation import kernels
from heterofl_ray.models.layout import Fixed, Labels, Layout
from heterofl_ray.submodels.plan import Picked, Selection, SubmodelPlan, Window, with_extra

Parameters = Mapping[str, Tensor]
Selections = tuple[Selection, ...]
Step = Callable[[str, Tensor, Tensor, Tensor], None]
Noise = Callable[[str, Tensor], Tensor]


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
        self._label_axes = label_axes(layout)
        self._fused = kernels.available() and any(t.is_cuda for t in parameters.values())
        # for as long as somebody has the plan: some are made for one round
        self._windows = WeakKeyDictionary[SubmodelPlan, dict[str, Window]]()
        self._count_windows = WeakKeyDictionary[SubmodelPlan, dict[str, Window]]()
        self._weights: dict[tuple[SubmodelPlan, tuple[str, ...]], float] = {}

    def add(
        self,
        plan: SubmodelPlan,
        sums: Parameters,
        weight: float,
        labels: Tensor | None = None,
        label_weights: Tensor | None = None,
    ) -> None:
        """Add the summed parameters of clients that share ``plan``, of total weight ``weight``.

        What is not among ``sums`` they do not send.
        Where they hold only some labels, ``sums`` has only these on label axes, and
        ``label_weights`` is for each of ``labels`` the weight of the clients that hold it.
        """
        by_label = {} if labels is None or label_weights is None else self._label_axes
        whole = {name: values for name, values in sums.items() if name not in by_label}
        if self._fused:
            for name, values in whole.items():
                held = torch.full([1] * values.dim(), weight, device=self.sums[name].device)
                self._add_both(name, plan.selections[name], values, held)
        else:
            self._add_whole(plan, whole, weight)
        if labels is None or label_weights is None:
            return
        for name in sums.keys() & by_label.keys():
            chosen, (place, axis) = plan.selections[name], by_label[name]
            held = _along(place, len(chosen), label_weights, axis.extra, weight)
            self._add_both(name, with_rows(chosen, place, axis, labels), sums[name], held)

    def commit(
        self, parameters: Parameters, step: Step | None = None, noise: Noise | None = None
    ) -> None:
        """Write the means into ``parameters`` in place, then `clear`.

        ``step(name, parameter, means, held)`` does the writing in another way. ``noise(name,
        sums)`` is added to the sums: a mean's noise is smaller the more clients hold the element.
        """
        self.count()
        for name, parameter in parameters.items():
            counts = self.counts[name]
            if noise is not None:
                self.sums[name] += noise(name, self.sums[name])
            means = self.sums[name].div_(counts)
            (step or replace)(name, parameter, means.to(parameter.dtype), counts > 0)
        self.clear()

    def count(self) -> None:
        """Write out the weights that were noted while sums came in."""
        for (plan, names), weight in self._weights.items():
            windows = self._count_windows[plan]
            for name in names:
                windows[name].add_number(weight)
        self._weights.clear()

    def clear(self) -> None:
        """Start again from zero."""
        self._weights.clear()
        for tensor in (*self.sums.values(), *self.counts.values()):
            tensor.zero_()

    def _add_whole(self, plan: SubmodelPlan, sums: Parameters, weight: float) -> None:
        """All in one call, since small tensors are many; their weight is noted for `count`."""
        if plan not in self._windows:
            self._windows[plan] = plan.windows(self.sums)
            self._count_windows[plan] = plan.windows(self.counts)
        windows = self._windows[plan]
        views, added = [], []
        for name, values in sums.items():
            window = windows[name]
            if window.picks:
                window.add(values)
            else:
                views.append(window.view)
                added.append(window.shaped(values))
        if views:
            torch._foreach_add_(views, added)
        noted = (plan, tuple(sums))
        self._weights[noted] = self._weights.get(noted, 0.0) + weight

    def _add_both(self, name: str, selections: Selections, values: Tensor, held: Tensor) -> None:
        add = kernels.fused_add if self._fused else plain_add
        add(self.sums[name], self.counts[name], selections, values, held)


def replace(name: str, parameter: Tensor, means: Tensor, held: Tensor) -> None:
    """The mean is the new value of what somebody held."""
    torch.where(held, means, parameter, out=parameter)


def label_axes(layout: Layout) -> dict[str, tuple[int, Labels]]:
    """Where a parameter's label axis is, of those that have one."""
    return {
        name: (place, axis)
        for name, axes in layout.items()
        for place, axis in enumerate(axes)
        if isinstance(axis, Labels)
    }


def with_rows(chosen: Selections, place: int, axis: Labels, labels: Tensor) -> Selections:
    """A plan's selections of a parameter, of which only ``labels`` are held."""
    return (*chosen[:place], Picked(with_extra(labels, axis)), *chosen[place + 1 :])


def plain_add(
    sums: Tensor, counts: Tensor, selections: Selections, values: Tensor, weights: Tensor
) -> None:
    """What `kernels.fused_add` does, in two passes on any device."""
    Window.on(sums, selections).add(values)
    Window.on(counts, selections).add(weights)


def _along(place: int, axes: int, label_weights: Tensor, extra: int, weight: float) -> Tensor:
    """Weights per label, then the full weight for the entries everyone holds, along one axis."""
    held = torch.cat([label_weights, label_weights.new_full([extra], weight)])
    return held.view([-1 if axis == place else 1 for axis in range(axes)])
