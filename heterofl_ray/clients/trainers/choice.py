"""Which trainer a level gets.

``execution.trainer=auto`` follows a fixed rule of the settings, the data's size and the kind of
device, so that equal configs give equal bytes; the rule comes from the speed suite:

- on a CPU, steps of images are compiled when a run has enough of them at a level to pay for the
  compiler (about half a minute per level, once per machine), and laid out channels last otherwise;
- text stays plain: its time is in large matrix products, and its dropout is drawn step by step.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import nn

from heterofl_ray.clients.trainers import packages
from heterofl_ray.clients.trainers.base import Trainer
from heterofl_ray.clients.trainers.channels_last import ChannelsLastTrainer
from heterofl_ray.clients.trainers.compiled import CompiledTrainer
from heterofl_ray.clients.trainers.plain import PlainTrainer
from heterofl_ray.errors import ConfigError
from heterofl_ray.mixes import Level
from heterofl_ray.models import registry

if TYPE_CHECKING:
    from heterofl_ray.clients.workbench import Workbench

logger = logging.getLogger(__name__)

WORTH_COMPILING = 20_000
"""Steps of a level in a run from which the compiler's time comes back."""


def make_trainer(bench: Workbench, level: Level) -> Trainer:
    """The trainer that the settings name for ``level``."""
    name = chosen(bench, level)
    if name == "compiled":
        return _compiled(bench, level)
    simple: dict[str, Callable[..., Trainer]] = {
        "plain": PlainTrainer,
        "channels_last": ChannelsLastTrainer,
    }
    return simple[name](bench.config.optimizer)


def chosen(bench: Workbench, level: Level) -> str:
    """The name of a level's trainer: as set, or by the rule."""
    name = bench.config.execution.trainer
    if name == "compiled":
        for fault in obstacles(bench):
            raise ConfigError.of("execution.trainer", name, fault)
    return by_rule(bench, level) if name == "auto" else name


def by_rule(bench: Workbench, level: Level) -> str:
    if bench.data.task != "images":
        return "plain"
    if bench.device.type != "cpu" or expected_steps(bench, level) < WORTH_COMPILING:
        return "channels_last"
    if obstacles(bench):
        return "channels_last"
    if packages.compiler() is None:
        logger.warning("no C++ compiler here: training is not compiled, and several times slower")
        return "channels_last"
    return "compiled"


def obstacles(bench: Workbench) -> list[str]:
    """What keeps a step from being compiled."""
    config, faults = bench.config, []
    if config.optimizer.name != "sgd":
        faults.append("is for optimizer.name=sgd")
    if bench.data.task != "images":
        faults.append("is for models of images")
    elif any(isinstance(part, nn.Dropout) for part in bench.model(config.levels.largest).modules()):
        faults.append("is for models without dropout")
    if bench.device.type != "cpu":
        faults.append("is for execution.device=cpu")
    return faults


def expected_steps(bench: Workbench, level: Level) -> float:
    """Training steps at ``level`` in the whole run, from the settings and the data's size."""
    config = bench.config
    examples = bench.data.dataset.info.train / config.clients
    steps = config.local_epochs * max(1.0, examples / config.batch_size)
    share = config.levels.shares[config.levels.levels.index(level)]
    return config.rounds * config.cohort_size * share * steps


def _compiled(bench: Workbench, level: Level) -> CompiledTrainer:
    family = registry.family(bench.config.model)
    model = bench.model(level)
    batch = (bench.config.batch_size, *bench.data.input_shape)
    largest = bench.config.levels.largest.rate
    recipe = f"{bench.spec} at {level.rate} of {largest}"
    trainer = CompiledTrainer(bench.config.optimizer, recipe, batch, bench.config.execution.threads)
    if not isinstance(family.factory, str):  # a user's own: its code is known by what it computes
        trainer.recipe += trainer.graph(model, bench.objective(None))
    return trainer
