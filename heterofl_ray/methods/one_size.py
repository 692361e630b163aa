"""Everybody who takes part trains a model of the same size.

- fedavg (B. McMahan et al., 2017) and alllarge (InclusiveFL's name for it): all clients train the
  largest level of the mix, whatever they can afford: an upper bound. The same computation;
- allsmall: all clients train the smallest level, which then is the global model;
- dropweak: of the round's cohort only clients of the largest level take part, so cohorts are
  smaller. A round in which nobody does leaves the model as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.evaluation import Evaluation
from heterofl_ray.mixes import Level
from heterofl_ray.simulation import Simulation


class Largest(Simulation):
    """The mix becomes its largest level."""

    @classmethod
    def settle(cls, config: ExperimentConfig) -> ExperimentConfig:
        return super().settle(config.with_one_level(config.levels.levels[0]))


class Smallest(Simulation):
    """The mix becomes its smallest level."""

    @classmethod
    def settle(cls, config: ExperimentConfig) -> ExperimentConfig:
        return super().settle(config.with_one_level(config.levels.levels[-1]))


class DropWeak(Simulation):
    def cohort(self, t: int) -> tuple[list[int], list[Level]]:
        largest = self.config.levels.largest
        drawn = zip(*super().cohort(t), strict=True)
        strong = [client for client, level in drawn if level == largest]
        return strong, [largest] * len(strong)

    def evaluation(self, levels: Sequence[Level]) -> Evaluation:
        """Of the largest level alone: nobody trained a smaller one."""
        return super().evaluation(levels[:1])
