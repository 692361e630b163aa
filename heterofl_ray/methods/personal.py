"""Clients that keep all or some of their model to themselves.

- lg-fedavg: P. P. Liang et al., "Think Locally, Act Globally: Federated Learning with Local and
  Global Representations", 2020. The layers below the head stay with the client and the head is
  averaged; ``lg.private=head`` is the reverse. It may begin with ``lg.warmup`` rounds of FedAvg, or
  from the model of a run that is there (``lg.start``);
- standalone: that paper's (and HeteroFL's) baseline without any communication. Every client trains
  the largest level of the mix by itself;
- local: InclusiveFL's. The same, but every client trains the level that it can afford.

A client's layers have one width, so a client keeps one level for the whole run: with
``assignment=dynamic`` it is drawn once. In a round the cohort trains, so that clients do as much
work as in any other method. Shared layers are averaged over clients of all levels that hold them;
standalone and local share none, so a server's optimiser has nothing to do in them.

Only clients that took part so far have a model to test: what the client keeps, with the newest
shared layers. The Local score is each client's model on the client's own part of the test set. The
global score is the mean over clients of what their models score on the whole test set: what a user
gets who is given some client's model. (Liang et al. let all clients' models vote instead, for which
every client's model would have to leave it.) The global model that a run saves has its private
layers as they were before anybody kept any; what clients keep lies beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial

from heterofl_ray.clients.jobs import TrainJob
from heterofl_ray.clients.private import PrivateTrainJob
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.evaluation import ClientModel, Evaluation, evaluate_clients
from heterofl_ray.methods.starting import StartedServer, read_start, settle_start
from heterofl_ray.mixes import Level
from heterofl_ray.models.layout import Layout
from heterofl_ray.simulation import Simulation
from heterofl_ray.submodels.levels import assign_levels, sample_cohort
from heterofl_ray.submodels.selectors import Cut


class Local(Simulation):
    """Nothing is shared."""

    averages = False
    own_levels = True

    @cached_property
    def private(self) -> frozenset[str]:
        """The tensors that stay with a client."""
        return frozenset(self.bench.layout(self.config.levels.largest))

    def level_of(self, clients: Sequence[int]) -> list[Level]:
        """The level that each client has in every round."""
        return assign_levels(self.config, self.bench.streams, 0, clients)

    def cohort(self, t: int) -> tuple[list[int], list[Level]]:
        drawn = sample_cohort(self.config, self.bench.streams, t)
        return drawn, self.level_of(drawn)

    def job(self, t: int, cut: Cut, clients: tuple[int, ...]) -> TrainJob:
        return PrivateTrainJob(t, cut, clients, self.config.learning_rate(t), self.private)

    def evaluation(self, levels: Sequence[Level]) -> Evaluation:
        kept = sorted(self.backend.state.clients.items())
        if not kept:  # nobody's update counted so far: all have the first model
            return super().evaluation(levels)
        level_of = self.level_of([client for client, _ in kept])
        slices = {level: self.backend.cut(Cut(level)) for level in dict.fromkeys(level_of)}
        models = [
            ClientModel(client, level, slices[level], state.tensors)
            for (client, state), level in zip(kept, level_of, strict=True)
        ]
        return Evaluation(self.bench, self.backend, partial(evaluate_clients, models))


class Standalone(Local):
    """Everyone has the largest level."""

    @classmethod
    def settle(cls, config: ExperimentConfig) -> ExperimentConfig:
        return super().settle(config.with_one_level(config.levels.largest))


class LGFedAvg(Local):
    averages = True
    server = StartedServer

    @classmethod
    def settle(cls, config: ExperimentConfig) -> ExperimentConfig:
        return super().settle(settle_start(config))

    @classmethod
    def check(cls, bench: Workbench) -> None:
        _lg_names(bench)
        if bench.config.lg.start:
            read_start(bench)

    @cached_property
    def private(self) -> frozenset[str]:
        return _lg_names(self.bench)

    def job(self, t: int, cut: Cut, clients: tuple[int, ...]) -> TrainJob:
        if t <= self.config.lg.warmup:
            return Simulation.job(self, t, cut, clients)
        return super().job(t, cut, clients)


def _lg_names(bench: Workbench) -> frozenset[str]:
    lg = bench.config.lg
    return private_names(bench.layout(bench.config.levels.largest), lg.head, lg.private == "head")


def private_names(layout: Layout, head: int, keep_head: bool) -> frozenset[str]:
    """The tensors of the last ``head`` layers, or of all the others.

    A layer is a module that has parameters of its own, in the model's order.
    """
    layers = list(dict.fromkeys(name.rpartition(".")[0] for name in layout))
    if head >= len(layers):
        raise ConfigError.of(
            "lg.head", head, f"the model has {len(layers)} layers; must be below that"
        )
    chosen = layers[-head:] if keep_head else layers[:-head]
    return frozenset(name for name in layout if name.rpartition(".")[0] in chosen)
