"""The server of a run: holds the global model, cuts each level's slice, adds up, commits.

A plain class. In one process it is used as it is; on a cluster the backend makes it an actor.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from heterofl_ray.aggregation.overlap import OverlapMean
from heterofl_ray.clients.group_sum import GroupUpdate
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.mixes import Level
from heterofl_ray.models import registry
from heterofl_ray.models.layers import parameters_of
from heterofl_ray.submodels.plan import SubmodelPlan
from heterofl_ray.submodels.selectors import leading


class ParameterServer:
    """Owns the global parameters; everything that changes them happens here."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        largest = bench.config.levels.largest
        self._layout = bench.layout(largest)
        with bench.streams.layers("initial-model"):
            model = registry.build(bench.spec, largest.rate)
        self.parameters = {
            name: tensor.to(bench.device) for name, tensor in parameters_of(model).items()
        }
        self._mean = OverlapMean(
            self._layout, self.parameters, getattr(torch, bench.config.server.accumulate)
        )

    def cut(self, level: Level) -> dict[str, Tensor]:
        """The level's slice of the global model: W_g[:d, :k]."""
        return self._plan(level).extract(self.parameters)

    def accumulate(self, update: GroupUpdate) -> None:
        """Add one group's sum, in place."""
        self._mean.add(
            self._plan(update.level, update.labels),
            update.sums,
            update.weight,
            update.label_weights,
        )

    def commit(self) -> None:
        """End the round: every element becomes the mean over the clients that hold it."""
        self._mean.commit(self.parameters)

    def load(self, parameters: Mapping[str, Tensor]) -> None:
        """Replace the global parameters."""
        for name, tensor in self.parameters.items():
            tensor.copy_(parameters[name])

    def _plan(self, level: Level, labels: Tensor | None = None) -> SubmodelPlan:
        selection = leading(self._layout, self._bench.layout(level))
        return SubmodelPlan.of(self._layout, selection, labels)
