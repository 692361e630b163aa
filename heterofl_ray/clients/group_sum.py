"""Adding up same-level clients where they ran, so that one sum travels instead of many.

What the server asks of an update is seen to here, client by client: that it has the right shape and
is finite, and that it is no longer than the bound.
"""

from __future__ import annotations

import dataclasses
import math
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


@dataclass(frozen=True)
class Receipt:
    """What became of one client's update."""

    fault: str | None = None
    """What was wrong with it; it then does not count."""
    bounded: bool = False
    """Whether it was scaled down."""


class GroupSum:
    """Adds up clients of one cut over the labels any of them holds.

    ``names`` are the tensors that they send (None: all). With privacy, how many clients an element
    is divided by must not tell what data they have: a client's rows of labels that it lacks, and
    all of an update that is left out, count as unchanged.
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
        self.private = bench.config.privacy.on
        self.labels = labels = None if self.private else labels
        self.layout = restricted(bench.layout(cut.level), labels)
        self.sent = {
            name: axes for name, axes in self.layout.items() if names is None or name in names
        }
        self.whole = {name: bench.layout(cut.level)[name] for name in self.sent}
        self.sums = {
            name: torch.zeros(
                [axis.width for axis in axes],
                dtype=parameters[name].dtype,
                device=bench.device,
            )
            for name, axes in self.sent.items()
        }
        self.start = parameters
        self.bound = bench.config.update_bound
        self.by_examples = bench.config.server.weighting == "examples"
        self.weight = 0.0
        self.label_weights = None if labels is None else torch.zeros(len(labels))

    def add(self, update: LocalUpdate) -> Receipt:
        """Add one client's update; a fault in it is named, and it is then left out."""
        fault, bounded = self._fault(update), False
        if fault is not None and not self.private:
            return Receipt(fault)
        if self.private:
            update = self._unrestricted(update, fault is None)
        if self.bound:
            update, bounded = self._bounded(update)
        self._count(update)
        return Receipt(fault, bounded)

    def _count(self, update: LocalUpdate) -> None:
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

    def _unrestricted(self, update: LocalUpdate, counts: bool) -> LocalUpdate:
        """The update with all labels' rows; what the client lacks is as it was sent to it."""
        whole = {name: self.start[name].to(self.sums[name], copy=True) for name in self.sent}
        if counts:
            SubmodelPlan.of(self.sent, labels=update.labels).scatter(whole, update.parameters)
        return dataclasses.replace(update, parameters=whole, labels=None)

    def _bounded(self, update: LocalUpdate) -> tuple[LocalUpdate, bool]:
        start = SubmodelPlan.of(self.whole, labels=update.labels).extract(self.start)
        sent = {name: update.parameters[name] for name in self.sent}
        near = within_bound(start, sent, self.bound)
        if near is None:
            return update, False
        return dataclasses.replace(update, parameters=near), True

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


def within_bound(start: Parameters, sent: Parameters, bound: float) -> dict[str, Tensor] | None:
    """The point at ``bound`` on the way from ``start`` to ``sent``; None: ``sent`` is nearer."""
    moves = {
        name: tensor.double() - start[name].to(tensor.device).double()
        for name, tensor in sent.items()
    }
    length = math.sqrt(sum(float(move.square().sum()) for move in moves.values()))
    if length <= bound:
        return None
    share = bound / length
    return {
        name: (start[name].to(move) + share * move).to(sent[name].dtype)
        for name, move in moves.items()
    }


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
