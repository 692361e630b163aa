"""Which trainer a level gets.

``execution.trainer=auto`` follows a fixed rule of the settings, the data's size and the kind of
device, so that equal configs give equal bytes; the rule comes from the speed suite:

- on a CPU, steps are compiled when a run has enough of them at a level to pay for the compiler
  (about a minute per level, once per machine); otherwise images are laid out channels last, but for
  narrow levels that the library would crash on so: these train plain, and so does text;
- on a GPU, clients of images that share a job are trained together, and text trains plain.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn

from heterofl_ray.clients.trainers import packages
from heterofl_ray.clients.trainers.base import Trainer
from heterofl_ray.clients.trainers.channels_last import ChannelsLastTrainer, overruns
from heterofl_ray.clients.trainers.compiled import CompiledTrainer
from heterofl_ray.clients.trainers.graphed import GraphedTrainer
from heterofl_ray.clients.trainers.plain import PlainTrainer
from heterofl_ray.clients.trainers.vectorised import VectorisedTrainer
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.text import TextClients
from heterofl_ray.errors import ConfigError
from heterofl_ray.mixes import Level
from heterofl_ray.models import registry
from heterofl_ray.models.layout import label_axes

if TYPE_CHECKING:
    from heterofl_ray.clients.workbench import Workbench

logger = logging.getLogger(__name__)

WORTH_COMPILING = {"images": 20_000, "text": 6_000}
"""Steps of a level in a run from which the compiler's time comes back."""


def make_trainer(bench: Workbench, level: Level) -> Trainer:
    """The trainer that the settings name for ``level``."""
    return build(chosen(bench, level), bench, level)


def build(name: str, bench: Workbench, level: Level) -> Trainer:
    settings, execution = bench.config.optimizer, bench.config.execution
    precision = getattr(torch, execution.precision)
    together = bench.data.rows_each if isinstance(bench.data, TextClients) else None
    batch = (together or bench.config.batch_size, *bench.data.input_shape)
    match name:
        case "plain":
            return PlainTrainer(settings, precision)
        case "channels_last":
            return ChannelsLastTrainer(settings, precision)
        case "vectorised":
            return VectorisedTrainer(settings)
        case "graphed":
            return GraphedTrainer(settings, batch)
        case _:
            recipe = f"{bench.spec.at(level)} at {level.rate} of {bench.config.levels.largest.rate}"
            trainer = CompiledTrainer(
                settings,
                recipe,
                batch,
                execution.threads,
                tokens=bench.data.task == "text",
                varying=label_axes(bench.layout(level)) if bench.sliced else {},
            )
            if not isinstance(registry.family(bench.config.model).factory, str):
                # a user's own model: its code is known by what it computes
                trainer.recipe += trainer.graph(bench.model(level), bench.example_objective())
            return trainer


def chosen(bench: Workbench, level: Level) -> str:
    """The name of a level's trainer: as set, or by the rule."""
    name = bench.config.execution.trainers.get(level.name, bench.config.execution.trainer)
    if name == "auto" or "=" in name:
        return by_rule(bench, level)
    for fault in obstacles(name, bench, level):
        raise ConfigError.of("execution.trainer", name, fault)
    return name


def not_yet_compiled(bench: Workbench) -> list[str]:
    """Levels that this machine's compiler must make steps for first."""
    trainers = {level.name: bench.trainer(level) for level in bench.config.levels.levels}
    objective = bench.example_objective()
    return [
        name
        for name, trainer in trainers.items()
        if isinstance(trainer, CompiledTrainer) and not trainer.path(objective).exists()
    ]


def settle_trainers(config: ExperimentConfig, allowed: Sequence[str]) -> ExperimentConfig:
    """The config of a method that only ``allowed`` trainers know: auto is the first of them."""
    execution, picked = config.execution, {}
    for level in config.levels.levels:
        by_level = execution.trainers.get(level.name, "auto")
        name = by_level if execution.trainers else execution.trainer
        if name not in (*allowed, "auto"):
            fault = f"method={config.method} is for {' or '.join(allowed)}"
            raise ConfigError.of("execution.trainer", execution.trainer, fault)
        picked[level.name] = allowed[0] if name == "auto" else name
    names = list(dict.fromkeys(picked.values()))
    text = names[0] if len(names) == 1 else ",".join(f"{k}={v}" for k, v in picked.items())
    return config.override([f"execution.trainer={text}"])


def by_rule(bench: Workbench, level: Level) -> str:
    task = bench.data.task
    if task == "images" and bench.device.type == "cuda":
        together = bench.config.execution.clients_per_job > 1
        fits = together and not obstacles("vectorised", bench, level)
        return "vectorised" if fits else "channels_last"
    laid_out = task == "images" and not obstacles("channels_last", bench, level)
    uncompiled = "channels_last" if laid_out else "plain"
    if obstacles("compiled", bench, level) or expected_steps(bench, level) < WORTH_COMPILING[task]:
        return uncompiled
    if packages.compiler() is None:
        logger.warning("no C++ compiler here: training is not compiled, and several times slower")
        return uncompiled
    return "compiled"


def obstacles(name: str, bench: Workbench, level: Level) -> list[str]:
    """What keeps a level from having the trainer ``name``."""
    config, faults = bench.config, []
    if name in ("compiled", "vectorised", "graphed"):
        if config.optimizer.name != "sgd":
            faults.append("is for optimizer.name=sgd")
        if config.execution.precision != "float32":
            faults.append("is for execution.precision=float32")
    if name in ("vectorised", "graphed"):
        if bench.data.task != "images":
            faults.append("is for models of images")
        elif _draws(bench.model(config.levels.largest)):
            faults.append("is for models without dropout")
    if name == "compiled":
        if bench.data.task not in WORTH_COMPILING:
            faults.append("is for models of images and of running text")
        elif isinstance(bench.data, TextClients) and bench.data.rows_each is None:
            faults.append(
                "is for clients that have equally many rows of text: partition=iid, and text.rows "
                f"({config.text.rows}) a multiple of clients ({config.clients})"
            )
    if name == "channels_last" and bench.device.type == "cpu" and overruns(bench.model(level)):
        faults.append(f"would crash torch's CPU library at level {level.name}; use plain there")
    if name == "compiled" and bench.device.type != "cpu":
        faults.append("is for execution.device=cpu")
    if name == "graphed" and bench.device.type != "cuda":
        faults.append("is for execution.device=cuda")
    return faults


def _draws(model: nn.Module) -> bool:
    return any(isinstance(module, nn.modules.dropout._DropoutNd) for module in model.modules())


def expected_steps(bench: Workbench, level: Level) -> float:
    """Training steps at ``level`` in the whole run, from the settings and the data's size."""
    config, data = bench.config, bench.data
    if isinstance(data, TextClients):
        pass_over: float = data.windows
    else:
        pass_over = max(1.0, data.dataset.info.train / config.clients / config.batch_size)
    steps = config.local_epochs * pass_over
    share = config.levels.shares[config.levels.levels.index(level)]
    return config.rounds * config.cohort_size * share * steps
