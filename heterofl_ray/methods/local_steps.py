"""Methods whose clients take other steps.

- fedprox: T. Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020. FedAvg in
  which a client's loss has mu/2 |w - w_round|² added, so that it does not go far from the model
  that it was sent;
- fjord: S. Horváth et al., "FjORD: Fair and Accurate Federated Learning under heterogeneous targets
  with Ordered Dropout", NeurIPS 2021. HeteroFL's leading slices, but a step trains a width drawn
  from the mix's levels up to the client's own; with ``fjord.distillation`` the client's full width
  is trained in each step too and teaches the drawn one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from heterofl_ray.clients.jobs import TrainJob
from heterofl_ray.clients.trainers.base import Trainer
from heterofl_ray.clients.trainers.ordered_dropout import OrderedDropoutTrainer, Width
from heterofl_ray.clients.trainers.proximal import ProximalTrainer
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.methods.one_size import Largest
from heterofl_ray.simulation import Simulation
from heterofl_ray.submodels.plan import SubmodelPlan
from heterofl_ray.submodels.selectors import Cut, leading


@dataclass(frozen=True)
class ProximalJob(TrainJob):
    def trainer(self, bench: Workbench, client: int) -> Trainer:
        return ProximalTrainer(bench.trainer(self.level), bench.config.fedprox.mu)


class FedProx(Largest):
    trainers = ("channels_last", "plain")

    def job(self, t: int, cut: Cut, clients: tuple[int, ...]) -> TrainJob:
        return ProximalJob(t, cut, clients, self.config.learning_rate(t))


@dataclass(frozen=True)
class OrderedDropoutJob(TrainJob):
    def trainer(self, bench: Workbench, client: int) -> Trainer:
        config, own = bench.config, bench.layout(self.level)
        widths = []
        for level in config.levels.levels:
            if level.rate <= self.level.rate:
                plan = SubmodelPlan.of(own, leading(own, bench.layout(level)))
                widths.append(Width(bench.model(level), plan))
        return OrderedDropoutTrainer(
            config.optimizer,
            getattr(torch, config.execution.precision),
            widths=widths,
            random=bench.streams.numpy("ordered-dropout", self.round_number, client),
            method=config.fjord,
        )


class Fjord(Simulation):
    trainers = ("plain",)

    @classmethod
    def check(cls, bench: Workbench) -> None:
        """Refuse to distil answers that are numbers: there is no choice among labels in them."""
        share, config = bench.config.fjord.distillation, bench.config
        if share and bench.data.dataset.info.target == "number":
            raise ConfigError.of(
                "fjord.distillation",
                share,
                f"must be 0 for data={config.data}, whose answers are numbers and not labels",
            )

    @classmethod
    def example_flops(
        cls, config: ExperimentConfig, level: str, forward: Mapping[str, float]
    ) -> float:
        """The mean over the widths that may be drawn."""
        own = config.levels[level].rate
        drawn = [forward[other.name] for other in config.levels.levels if other.rate <= own]
        if config.fjord.distillation:  # a narrower width has the full one beside it
            drawn = [flops + (forward[level] if flops < forward[level] else 0) for flops in drawn]
        return sum(drawn) / len(drawn)

    def job(self, t: int, cut: Cut, clients: tuple[int, ...]) -> TrainJob:
        return OrderedDropoutJob(t, cut, clients, self.config.learning_rate(t))
