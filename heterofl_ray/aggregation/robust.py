"""Means that a few hostile clients cannot move: element by element, over the clients that hold it.

Of an element's k values, sorted, some are left out at each end and the rest is averaged:

- median: all but the middle one, or the middle two;
- trimmed: the share ``server.trim`` of k at each end, rounded up, so that elements which few
  clients hold are guarded too. One value is always left.

An element that one or two clients hold becomes their mean: there is no telling who is wrong. One
that nobody holds keeps its value. (D. Yin et al., "Byzantine-Robust Distributed Learning: Towards
Optimal Statistical Rates", ICML 2018, there for clients that all hold the same model.)

Values are sorted, so nothing depends on the order in which updates come. All of a round's updates
are kept until it ends; then one tensor after another is gathered.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from heterofl_ray.aggregation.overlap import (
    Noise,
    Parameters,
    Selections,
    Step,
    label_axes,
    replace,
    with_rows,
)
from heterofl_ray.method_settings import ServerConfig
from heterofl_ray.models.layout import Layout
from heterofl_ray.submodels.plan import SubmodelPlan, Window

BLOCK = 2**22
"""Values that are sorted at once."""


@dataclass(frozen=True)
class Update:
    """What one client sent."""

    plan: SubmodelPlan
    values: Parameters
    labels: Tensor | None


class OverlapMiddle:
    """Takes the place of `overlap.OverlapMean`; each update must be of one client."""

    def __init__(
        self, settings: ServerConfig, layout: Layout, dtype: torch.dtype = torch.float32
    ) -> None:
        self._settings = settings
        self._label_axes = label_axes(layout)
        self._dtype = dtype
        self._updates: list[Update] = []

    def add(
        self,
        plan: SubmodelPlan,
        values: Parameters,
        weight: float,
        labels: Tensor | None = None,
        label_weights: Tensor | None = None,
    ) -> None:
        """Keep one client's update; of no weight: it was left out."""
        if weight:
            self._updates.append(Update(plan, values, labels))

    def commit(
        self, parameters: Parameters, step: Step | None = None, noise: Noise | None = None
    ) -> None:
        """Write the robust means into ``parameters`` in place, as `OverlapMean.commit` does."""
        if noise is not None:
            raise ValueError("a robust mean has no noise")
        for name, parameter in parameters.items():
            held_by = [update for update in self._updates if name in update.values]
            if held_by:
                means, held = self._means(name, parameter, held_by)
                (step or replace)(name, parameter, means.to(parameter.dtype), held)
        self.clear()

    def clear(self) -> None:
        self._updates.clear()

    def _means(self, name: str, parameter: Tensor, updates: list[Update]) -> tuple[Tensor, Tensor]:
        """One tensor's means, and whether there is one for an element."""
        shape = (len(updates), *parameter.shape)
        values = parameter.new_full(shape, float("nan"), dtype=self._dtype)
        for own, update in zip(values, updates, strict=True):
            selections = self._selections(name, update)
            Window.on(own, selections).write(update.values[name].to(self._dtype))
        parts = values.flatten(1).split(max(1, BLOCK // len(updates)), 1)
        means, held = zip(*map(self._middle, parts), strict=True)
        return torch.cat(means).view_as(parameter), torch.cat(held).view_as(parameter)

    def _selections(self, name: str, update: Update) -> Selections:
        chosen = update.plan.selections[name]
        if update.labels is None or name not in self._label_axes:
            return chosen
        return with_rows(chosen, *self._label_axes[name], update.labels)

    def _middle(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Of each column its mean without the ends; NaN is where a client does not hold it."""
        ordered = values.sort(0).values  # NaN comes last
        count = values.isnan().logical_not_().sum(0)
        most = (count - 1).clamp_min(0) // 2
        cut = most
        if self._settings.robust == "trimmed":
            share = (count.double() * self._settings.trim - 1e-9).ceil().long()
            cut = torch.minimum(share, most)
        place = torch.arange(len(values), device=values.device)[:, None]
        kept = (place >= cut) & (place < count - cut)
        return torch.where(kept, ordered, 0).sum(0) / (count - 2 * cut), count > 0
