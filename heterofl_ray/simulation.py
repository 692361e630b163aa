"""HeteroFL: E. Diao, J. Ding, V. Tarokh, "HeteroFL: Computation and Communication Efficient
Federated Learning for Heterogeneous Clients", ICLR 2021. This file is its Algorithm 1.

Where we differ from the paper's text, settled against its printed figures or by need:
- a cohort has ceil(C·M) clients, at least one;
- gradients are clipped, and the learning rate falls at milestones (the paper's Table 6);
- elements that no client of the round holds keep their value;
- every level's sub-model is tested too, with its Scaler on, as it was trained.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from heterofl_ray import preflight
from heterofl_ray.clients.jobs import ClientReport, TrainJob
from heterofl_ray.clients.workbench import Workbench, resolve_device
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.places import data_dir, stored
from heterofl_ray.evaluation import Scores, evaluate
from heterofl_ray.execution.local import LocalBackend
from heterofl_ray.execution.scheduling import group_clients
from heterofl_ray.parameter_server import ParameterServer
from heterofl_ray.submodels.levels import assign_levels, sample_cohort

MEGABYTE = 1024**2


@dataclass(frozen=True)
class RoundRecord:
    """What one round did."""

    round_number: int
    lr: float
    seconds: float
    reports: list[ClientReport]
    scores: Mapping[str, Scores] = field(default_factory=dict)
    """By level, when a test was due; the largest level is the global model."""

    @property
    def loss(self) -> float:
        """Mean training loss over the cohort's examples."""
        examples = sum(report.examples for report in self.reports)
        return sum(report.loss * report.examples for report in self.reports) / examples

    @property
    def megabytes(self) -> float:
        """Moved to the clients; the same comes back."""
        return sum(report.moved for report in self.reports) * 4 / MEGABYTE


class Simulation:
    """One experiment: a server, a backend that runs clients, and the loop over rounds."""

    def __init__(self, config: ExperimentConfig, data_root: Path | None = None) -> None:
        root = data_dir(data_root)
        preflight.check(config, stored(root))
        self.config = config
        self.bench = Workbench(config, root, resolve_device(config.execution.device))
        self.server = ParameterServer(self.bench)
        for level in config.levels.levels:
            self.bench.model(level)  # a width that cannot be built is refused before training
        self.backend = LocalBackend(self.bench)

    def rounds(self) -> Iterator[RoundRecord]:
        for t in range(1, self.config.rounds + 1):
            yield self.run_round(t)

    def run_round(self, t: int) -> RoundRecord:
        started = time.perf_counter()
        config, streams, lr = self.config, self.bench.streams, self.config.learning_rate(t)

        # S_t <- random set of clients; each has a level by what it can do
        cohort = sample_cohort(config, streams, t)
        levels = assign_levels(config, streams, t, cohort)

        # W_m <- W_g[:d_m, :k_m], cut once for each level
        slices = {level: self.server.cut(level) for level in set(levels)}

        # each client in parallel: W_m <- ClientUpdate(m, r_m, W_m)
        groups = group_clients(cohort, levels, config.execution.clients_per_job)
        work = [(TrainJob(t, level, clients, lr), slices[level]) for level, clients in groups]
        reports: list[ClientReport] = []
        for group_reports, update in self.backend.run(work):
            reports += group_reports
            self.server.accumulate(update)

        # W_g <- for each part, the mean over the clients that hold it
        self.server.commit()

        scores = self._test(t)
        return RoundRecord(t, lr, time.perf_counter() - started, reports, scores)

    def _test(self, t: int) -> dict[str, Scores]:
        """Query the static batch norm's statistics and test, when a test is due."""
        every, last = self.config.evaluate_every, t == self.config.rounds
        if not last and (not every or t % every):
            return {}
        mix, when = self.config.levels, self.config.evaluation.levels
        all_levels = when == "always" or (when == "final" and last)
        return {
            level.name: evaluate(self.bench, self.server, self.backend, level)
            for level in (mix.levels if all_levels else mix.levels[:1])
        }

    def close(self) -> None:
        self.backend.close()
