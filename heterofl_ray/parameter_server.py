"""The server of a run: holds the global model, cuts sub-models out of it, adds up, commits.

A plain class. In one process it is used as it is; on a cluster the backend makes an actor of it,
or several, each with some of the tensors. A method may have a class of its own.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import ClassVar

import torch
from torch import Tensor

from heterofl_ray.aggregation.noise import SumNoise
from heterofl_ray.aggregation.overlap import OverlapMean
from heterofl_ray.aggregation.robust import OverlapMiddle
from heterofl_ray.aggregation.server_optimizers import ServerOptimizer
from heterofl_ray.clients.group_sum import GroupUpdate
from heterofl_ray.clients.workbench import Workbench, resolve_device
from heterofl_ray.models import registry
from heterofl_ray.models.layers import parameters_of
from heterofl_ray.models.layout import Layout
from heterofl_ray.submodels.plan import SubmodelPlan
from heterofl_ray.submodels.selectors import Cut, select


class ParameterServer:
    """Owns the global parameters; everything that changes them happens here.

    ``names`` are the tensors it holds (None: all of the model's).
    """

    divisible: ClassVar[bool] = True
    """Whether each tensor is dealt with by itself, so that several servers can share them."""

    def __init__(self, bench: Workbench, names: Collection[str] | None = None) -> None:
        config = bench.config
        self._bench = bench
        self._names = names
        self._layout = self._own(bench.layout(config.levels.largest))
        chosen = config.server.device
        self._device = bench.device if chosen == "auto" else resolve_device(chosen)
        with bench.streams.layers("initial-model"):
            model = registry.initial(bench.spec, config.levels.largest.rate)
        initial = parameters_of(model)
        self.parameters = {name: initial[name].to(self._device) for name in self._layout}
        self._plans: dict[Cut, SubmodelPlan] = {}
        self._optimizer = ServerOptimizer(config.server, self.parameters)
        self._mean = self._make_mean()

    def _make_mean(self) -> OverlapMean | OverlapMiddle:
        server = self._bench.config.server
        dtype: torch.dtype = getattr(torch, server.accumulate)
        if server.robust != "none":
            return OverlapMiddle(server, self._layout, dtype)
        return OverlapMean(self._layout, self.parameters, dtype)

    @property
    def state(self) -> dict[str, Tensor]:
        """All that it keeps between rounds, by name: the parameters, and more beside them."""
        return self.parameters | self._optimizer.state

    def cut(self, cut: Cut) -> dict[str, Tensor]:
        """A sub-model of the global model: W_g[:d, :k] where it is the leading one."""
        return self._plan(cut).extract(self.parameters)

    def accumulate(self, update: GroupUpdate) -> None:
        """Add one group's sum, in place."""
        update = update.to(self._device)
        self._mean.add(
            self._plan(update.cut),
            update.sums,
            update.weight,
            update.labels,
            update.label_weights,
        )

    def discard(self) -> None:
        """Forget what was added since the last commit."""
        self._mean.clear()

    def commit(self, round_number: int) -> None:
        """End the round: every element becomes the mean over the clients that hold it.

        Or goes in the mean's direction, where there is a server optimiser.
        """
        privacy, streams = self._bench.config.privacy, self._bench.streams
        noise = SumNoise(privacy, streams, round_number) if privacy.on else None
        self._mean.commit(self.parameters, self._optimizer.step, noise)
        self._plans = {cut: plan for cut, plan in self._plans.items() if cut.round_number is None}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` was; other names are passed over."""
        for name, tensor in self.parameters.items():
            tensor.copy_(state[name])
        self._optimizer.load(state)

    def _plan(self, cut: Cut) -> SubmodelPlan:
        if cut not in self._plans:
            inner = self._own(self._bench.layout(cut.level))
            outer = {name: axes for name, axes in self._layout.items() if name in inner}
            selection = select(cut, outer, inner, self._bench.streams)
            self._plans[cut] = SubmodelPlan.of(outer, selection)
        return self._plans[cut]

    def _own(self, layout: Layout) -> Layout:
        if self._names is None:
            return layout
        return {name: axes for name, axes in layout.items() if name in self._names}


def spread(layout: Layout, shards: int) -> list[list[str]]:
    """Names of a model's tensors in ``shards`` parts of nearly equal size, largest first."""
    elements = sizes(layout)
    parts: list[list[str]] = [[] for _ in range(shards)]
    filled = [0] * shards
    for name in sorted(elements, key=lambda name: (-elements[name], name)):
        least = filled.index(min(filled))
        parts[least].append(name)
        filled[least] += elements[name]
    return parts


def sizes(layout: Layout) -> dict[str, int]:
    """Elements of each of a model's tensors."""
    return {name: math.prod(axis.width for axis in axes) for name, axes in layout.items()}
