"""``execution.trainer=measure``: time the candidates on this machine once, and remember.

The outcome goes into the run's config, so that the run can be repeated and resumed byte for byte.
"""

from __future__ import annotations

import json
import time
from statistics import median
from typing import TYPE_CHECKING

import torch

from heterofl_ray.clients.trainers import packages
from heterofl_ray.clients.trainers.base import Batch
from heterofl_ray.clients.trainers.choice import build, obstacles
from heterofl_ray.clients.update import within
from heterofl_ray.mixes import Level
from heterofl_ray.models.layers import assign, parameters_of
from heterofl_ray.setting_groups import TRAINERS
from heterofl_ray.submodels.plan import SubmodelPlan

if TYPE_CHECKING:
    from heterofl_ray.clients.workbench import Workbench

STEPS = 20
REPEATS = 5


def measured(bench: Workbench) -> str:
    """The fastest trainer of every level, as the setting writes it: 'd=compiled,e=plain'."""
    return ",".join(f"{level.name}={fastest(bench, level)}" for level in bench.config.levels.levels)


def fastest(bench: Workbench, level: Level) -> str:
    """As remembered, or as timed now."""
    kept = packages.path_of(
        f"measured {bench.spec.at(level)} at {level.rate} {bench.config.optimizer} "
        f"{bench.config.execution} {bench.config.batch_size} {bench.device}",
        bench.config.execution.threads,
    ).with_suffix(".json")
    if kept.is_file():
        name: str = json.loads(kept.read_text(encoding="utf-8"))["fastest"]
        return name
    candidates = [name for name in TRAINERS if not obstacles(name, bench, level)]
    if packages.compiler() is None:
        candidates = [name for name in candidates if name != "compiled"]
    seconds = {name: seconds_per_step(bench, level, name) for name in candidates}
    name = min(seconds, key=lambda name: seconds[name])
    kept.write_text(json.dumps({"fastest": name, "seconds": seconds}), encoding="utf-8")
    return name


def seconds_per_step(bench: Workbench, level: Level, name: str) -> float:
    """The median over repeats of a short training."""
    trainer, model = build(name, bench, level), bench.model(level)
    start = {key: value.clone() for key, value in parameters_of(model).items()}
    own, objective = start, bench.example_objective()
    labels = bench.data.labels(0) if bench.sliced else None
    if labels is not None:
        own = SubmodelPlan.of(bench.layout(level), labels=labels).extract(start)
    batches: list[Batch] = []
    random = bench.streams.torch("measure")
    while len(batches) < STEPS:
        given = bench.data.training_batches(0, bench.config.batch_size, random, bench.device)
        batches += given if labels is None else within(labels.to(bench.device), given)
    times = []
    for _ in range(REPEATS + 1):
        assign(model, own)
        began = time.perf_counter()
        trainer.train(model, batches[:STEPS], objective, 1e-4)
        if bench.device.type == "cuda":
            torch.cuda.synchronize(bench.device)
        times.append((time.perf_counter() - began) / STEPS)
    assign(model, start)
    return median(times[1:])  # the first has whatever is done once
