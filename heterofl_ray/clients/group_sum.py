"""Adding up same-level clients where they ran, so that one sum travels instead of many."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from heterofl_ray.clients.update import LocalUpdate
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.models.layout import Labels, Layout
from heterofl_ray.submodels.plan import SubmodelPlan
from heterofl_ray.submodels.selectors import Cut

Parameters = Mapping[str, Tensor]


@dataclass(frozen=True)
class GroupUpdate:
    """What a group of clients with the same cut sends, summed; label axes hold only ``labels``."""

    cut: Cut
    sums: Parameters
    weight: float
    labels: Tensor | None
    label_weights: Tensor | None

    def part(self, names: Collection[str]) -> GroupUpdate:
        """The same with only some of the tensors."""
        some = {name: self.sums[name] for name in names if name in self.sums}
        return dataclasses.replace(self, sums=some)

    def to(self, device: torch.device) -> GroupUpdate:
        return dataclasses.replace(
            self,
            sums={name: tensor.to(device) for name, tensor in self.sums.items()},
            labels=None if self.labels is None else self.labels.to(device),
            label_weights=None if self.label_weights is None else self.label_weights.to(device),
        )


class GroupSum:
    """Adds up clients of one cut over the labels any of them holds.

    ``names`` are the tensors that they send (None: all).
    """

    def __init__(
        self,
        bench: Workbench,
        cut: Cut,
        parameters: Parameters,
        labels: Tensor | None,
        names: Collection[str] | None = None,
    ) -> None:
        self.cut = cut
        self.labels = labels
        self.layout = restricted(bench.layout(cut.level), labels)
        self.sent = {
            name: axes for name, axes in self.layout.items() if names is None or name in names
        }
        self.sums = {
            name: torch.zeros(
                [axis.width for axis in axes],
                dtype=parameters[name].dtype,
                device=bench.device,
            )
            for name, axes in self.sent.items()
        }
        self.by_examples = bench.config.server.weighting == "examples"
        self.weight = 0.0
        self.label_weights = None if labels is None else torch.zeros(len(labels))

    def add(self, update: LocalUpdate) -> str | None:
        """Add one client's update; a fault in it is named, and it is then left out."""
        fault = self._fault(update)
        if fault is not None:
            return fault
        weight = float(update.examples) if self.by_examples else 1.0
        self.weight += weight
        places = None
        if update.labels is not None and self.labels is not None:
            places = torch.searchsorted(self.labels, update.labels)
        if places is not None and self.label_weights is not None:
            self.label_weights[places] += weight
        weighed = (
            {name: tensor * weight for name, tensor in update.parameters.items()}
            if self.by_examples
            else update.parameters
        )
        SubmodelPlan.of(self.sent, labels=places).add(self.sums, weighed)
        return None

    def _fault(self, update: LocalUpdate) -> str | None:
        expected = restricted(self.layout, update.labels)
        for name, axes in expected.items():
            tensor = update.parameters.get(name)
            if tensor is None or tuple(tensor.shape) != tuple(axis.width for axis in axes):
                return f"wrong shape of {name}"
            if not torch.isfinite(tensor).all():
                return f"{name} is not finite"
        return None

    def result(self) -> GroupUpdate:
        return GroupUpdate(self.cut, self.sums, self.weight, self.labels, self.label_weights)


def restricted(layout: Layout, labels: Tensor | None) -> Layout:
    """The layout of a model whose label axes hold only ``labels``."""
    if labels is None:
        return layout
    return {
        name: tuple(
            Labels(len(labels), axis.extra) if isinstance(axis, Labels) else axis for axis in axes
        )
        for name, axes in layout.items()
    }
