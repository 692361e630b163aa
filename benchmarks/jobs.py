"""The suite's jobs: their settings for the simulator, and the same as a baseline."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from benchmarks.baseline.convolutional import Conv, PreResNet18
from benchmarks.baseline.images import ImageJob, Pictures, augmentation, changes
from benchmarks.baseline.slicing import Parameters
from benchmarks.baseline.text import TextJob
from benchmarks.baseline.transformer import Transformer
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.text import TextClients
from heterofl_ray.parameter_server import ParameterServer

CPU = torch.device("cpu")
FEW_ROUNDS = 2
"""Of a quick job: so few that no level is compiled for it, which takes the compiler a minute."""


@dataclass(frozen=True)
class Job:
    """One of the paper's experiments, with its settings; a test every round."""

    name: str
    data: str
    model: str
    mix: str
    lr: float
    rounds: int
    epochs: int
    round_bound: float
    """How many times as fast as the baseline a round should be, with its share of a test."""
    train_bound: float

    def config(self, **changes: object) -> ExperimentConfig:
        return ExperimentConfig.from_dict(
            {
                "data": self.data,
                "model": self.model,
                "mix": self.mix,
                "lr": self.lr,
                "rounds": self.rounds,
                "local_epochs": self.epochs,
                # the baseline's statistics, so that both do the same
                "evaluation": {"calibrate": "per-batch"},
                "execution": {"workers": 2, "backend": "ray", "address": "auto"},
                **changes,
            }
        )


JOBS = (
    Job("mnist-d-e", "mnist", "conv", "d-e", 0.01, 200, 5, 10, 4),
    Job("cifar10-d-e", "cifar10", "preresnet18", "d-e", 0.1, 400, 5, 10, 4),
    Job("wikitext2-d-e", "wikitext2", "transformer", "d-e", 0.1, 100, 1, 15, 5),
    Job("wikitext2-a-e", "wikitext2", "transformer", "a-e", 0.1, 100, 1, 8, 4),
)


def baseline(bench: Workbench) -> ImageJob | TextJob:
    """The baseline of a workbench's job: the same initial model, data and partition."""
    config, data = bench.config, bench.data
    rate = config.levels.largest.rate
    initial = ParameterServer(bench).parameters
    parts = [data.train[client].tolist() for client in range(config.clients)]
    if isinstance(data, TextClients):
        model: nn.Module = Transformer(data.outputs, rate, 1.0)
        whole = renamed(initial, model)
        test = data.dataset.test.tokens.long()
        return TextJob(data.outputs, whole, rate, data.rows.long(), parts, test, config.lr)
    channels, info = data.input_shape[0], data.dataset.info
    make = partial(Conv, channels=channels) if config.model == "conv" else PreResNet18
    train, tests = data.dataset.train, data.dataset.test
    plain = changes(info.mean, info.std)
    changed = changes(info.mean, info.std, *augmentation()) if info.augment else plain
    return ImageJob(
        make=make,
        whole=renamed(initial, make(rate, 1.0, False)),
        global_rate=rate,
        train=Pictures(train.images, train.labels, changed),
        test=Pictures(tests.images, tests.labels, plain),
        parts=parts,
        test_parts=[data.test[client].tolist() for client in range(config.clients)],
        epochs=config.local_epochs,
        lr=config.lr,
    )


def renamed(parameters: Parameters, model: nn.Module) -> Parameters:
    """The simulator's parameters under the baseline's names: both list them in the same order."""
    names = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    pairs = zip(names, parameters.values(), strict=True)
    found = {name: tensor.clone() for name, tensor in pairs}
    wrong = [name for name, tensor in found.items() if tuple(tensor.shape) != names[name]]
    if wrong:
        raise ValueError(f"the baseline's model is not the simulator's: {wrong[0]}")
    return found
