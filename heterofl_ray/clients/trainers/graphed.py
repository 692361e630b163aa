"""The training step as a CUDA graph: recorded once per level, then launched as a whole.

A step of 10 images is hundreds of small kernels; replaying them spares the host's part of each.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from heterofl_ray.clients.losses import Objective
from heterofl_ray.clients.trainers.base import Batch, mean_loss
from heterofl_ray.clients.trainers.step import Step
from heterofl_ray.setting_groups import OptimizerConfig

WARM_UPS = 3
"""Steps before recording, in which libraries choose algorithms and take their memory."""


@dataclass
class Recording:
    """A recorded step and the tensors it works on."""

    graph: torch.cuda.CUDAGraph
    parameters: list[Tensor]
    momenta: list[Tensor]
    inputs: Tensor
    targets: Tensor
    rate: Tensor
    client: Tensor | None
    loss: Tensor


@dataclass
class GraphedTrainer:
    settings: OptimizerConfig
    batch: tuple[int, ...]
    """The shape of a full batch's inputs; others take the same step unrecorded."""
    _recordings: dict[bool, Recording] = field(default_factory=dict)

    def prepare(self, model: nn.Module, objective: Objective) -> None:
        """Record the step, unless it is there."""
        masked = objective.client is not None
        if masked not in self._recordings:
            self._recordings[masked] = self._record(model, objective)

    def train(
        self, model: nn.Module, batches: Iterable[Batch], objective: Objective, lr: float
    ) -> float:
        self.prepare(model, objective)
        kept = self._recordings[objective.client is not None]
        step = Step(model, objective.function, self.settings)
        own = [parameter.detach() for parameter in model.parameters()]
        torch._foreach_copy_(kept.parameters, own)
        for momentum in kept.momenta:
            momentum.zero_()
        kept.rate.fill_(lr)
        if kept.client is not None and objective.client is not None:
            kept.client.copy_(objective.client)
        losses, sizes = [], []
        for inputs, targets in batches:
            if tuple(inputs.shape) == self.batch:
                kept.inputs.copy_(inputs)
                kept.targets.copy_(targets)
                kept.graph.replay()
                losses.append(kept.loss.clone())
            else:
                losses.append(
                    step(kept.parameters, kept.momenta, inputs, targets, kept.rate, kept.client)
                )
            sizes.append(targets.numel())
        torch._foreach_copy_(own, kept.parameters)
        return mean_loss(losses, sizes)

    def _record(self, model: nn.Module, objective: Objective) -> Recording:
        model.train()
        step = Step(model, objective.function, self.settings)
        parameters = [parameter.detach().clone() for parameter in model.parameters()]
        device = parameters[0].device
        momenta = step.start(parameters)
        inputs = torch.zeros(self.batch, device=device)
        targets = torch.zeros(self.batch[0], dtype=torch.long, device=device)
        rate = torch.zeros((), device=device)
        client = None if objective.client is None else objective.client.clone()
        aside = torch.cuda.Stream(device)
        aside.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(aside):
            for _ in range(WARM_UPS):
                step(parameters, momenta, inputs, targets, rate, client)
        torch.cuda.current_stream(device).wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = step(parameters, momenta, inputs, targets, rate, client)
        return Recording(graph, parameters, momenta, inputs, targets, rate, client, loss)
