"""The server of a run: holds the global model, cuts each level's slice, adds up, commits.

A plain class. In one process it is used as it is; on a cluster the backend makes an actor of it,
or several, each with some of the tensors.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from heterofl_ray.aggregation.overlap import OverlapMean
from heterofl_ray.clients.group_sum import GroupUpdate
from heterofl_ray.clients.workbench import Workbench, resolve_device
from heterofl_ray.mixes import Level
from heterofl_ray.models import registry
from heterofl_ray.models.layers import parameters_of
from heterofl_ray.models.layout import Layout
from heterofl_ray.submodels.plan import SubmodelPlan
from heterofl_ray.submodels.selectors import leading


class ParameterServer:
    """Owns the global parameters; everything that changes them happens here.

    ``names`` are the tensors it holds (None: all of the model's).
    """

    def __init__(self, bench: Workbench, names: Collection[str] | None = None) -> None:
        config = bench.config
        self._bench = bench
        self._names = names
        self._layout = self._own(bench.layout(config.levels.largest))
        chosen = config.server.device
        self._device = bench.device if chosen == "auto" else resolve_device(chosen)
        with bench.streams.layers("initial-model"):
            model = registry.build(bench.spec, config.levels.largest.rate)
        initial = parameters_of(model)
        self.parameters = {name: initial[name].to(self._device) for name in self._layout}
        self._plans: dict[Level, SubmodelPlan] = {}
        self._mean = OverlapMean(
            self._layout, self.parameters, getattr(torch, config.server.accumulate)
        )

    def cut(self, level: Level) -> dict[str, Tensor]:
        """The level's slice of the global model: W_g[:d, :k]."""
        return self._plan(level).extract(self.parameters)

    def accumulate(self, update: GroupUpdate) -> None:
        """Add one group's sum, in place."""
        update = update.to(self._device)
        self._mean.add(
            self._plan(update.level),
            update.sums,
            update.weight,
            update.labels,
            update.label_weights,
        )

    def discard(self) -> None:
        """Forget what was added since the last commit."""
        self._mean.clear()

    def commit(self) -> None:
        """End the round: every element becomes the mean over the clients that hold it."""
        self._mean.commit(self.parameters)

    def load(self, parameters: Mapping[str, Tensor]) -> None:
        """Replace the global parameters."""
        for name, tensor in self.parameters.items():
            tensor.copy_(parameters[name])

    def _plan(self, level: Level) -> SubmodelPlan:
        if level not in self._plans:
            selection = leading(self._layout, self._own(self._bench.layout(level)))
            self._plans[level] = SubmodelPlan.of(self._layout, selection)
        return self._plans[level]

    def _own(self, layout: Layout) -> Layout:
        if self._names is None:
            return layout
        return {name: axes for name, axes in layout.items() if name in self._names}


def spread(layout: Layout, shards: int) -> list[list[str]]:
    """Names of a model's tensors in ``shards`` parts of nearly equal size, largest first."""
    sizes = {name: math.prod(axis.width for axis in axes) for name, axes in layout.items()}
    parts: list[list[str]] = [[] for _ in range(shards)]
    filled = [0] * shards
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        least = filled.index(min(filled))
        parts[least].append(name)
        filled[least] += sizes[name]
    return parts
