"""The floating-point operations that a round cannot do without, whoever computes it."""

from __future__ import annotations

import dataclasses

from heterofl_ray.clients.calibration import needs_calibration
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.models.costs import model_costs
from heterofl_ray.simulation import RoundRecord


def of_training(bench: Workbench, record: RoundRecord) -> float:
    """Forward and twice that backward, for what each client of the round holds."""
    config, total = bench.config, 0.0
    for report in record.reports:
        spec = bench.spec
        if bench.sliced:
            spec = dataclasses.replace(spec, outputs=len(bench.data.labels(report.client)))
        forward = model_costs(spec, config.levels[report.level].rate).flops
        total += 3 * forward * report.examples / _examples_at_once(bench) * config.local_epochs
    return total


def of_test(bench: Workbench) -> float:
    """The global model's way forward: over the test set, and over all training data if its norms'
    statistics are to be gathered."""
    level = bench.config.levels.largest
    examples = bench.data.test_size / _examples_at_once(bench)
    if needs_calibration(bench.model(level)):
        examples += len(bench.data.train.indices)
    return model_costs(bench.spec, level.rate).flops * examples


def _examples_at_once(bench: Workbench) -> int:
    """Of text, an example is a word and a model's costs are those of a window."""
    return bench.config.text.window if bench.data.task == "text" else 1
