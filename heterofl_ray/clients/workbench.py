"""What a worker keeps between jobs: the data's views and one model per level. No state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from heterofl_ray.clients.losses import Objective
from heterofl_ray.clients.trainers.base import Trainer
from heterofl_ray.clients.trainers.choice import make_trainer
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.images import ImageClients
from heterofl_ray.data.participants import ParticipantImages
from heterofl_ray.data.sequences import SequenceClients
from heterofl_ray.data.sources import load
from heterofl_ray.data.text import TextClients
from heterofl_ray.errors import ConfigError
from heterofl_ray.mixes import Level
from heterofl_ray.models import registry
from heterofl_ray.models.layers import set_scaler_rate
from heterofl_ray.models.layout import Layout
from heterofl_ray.models.spec import ModelSpec
from heterofl_ray.randomness import Streams

T = TypeVar("T")


@dataclass
class Workbench:
    """Data, models and random streams of one experiment, on one device."""

    config: ExperimentConfig
    data_root: Path
    device: torch.device
    public_root: Path | None = None
    """Where the public data set lies, if elsewhere."""
    _models: dict[Level, nn.Module] = field(default_factory=dict)
    _layouts: dict[Level, Layout] = field(default_factory=dict)
    _trainers: dict[Level, Trainer] = field(default_factory=dict)
    _kept: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def streams(self) -> Streams:
        return Streams(self.config.seed)

    @cached_property
    def data(self) -> ImageClients | TextClients | SequenceClients:
        dataset = load(self.config.data, self.data_root)
        task = registry.family(self.config.model).task
        if task != dataset.info.kind:
            raise ConfigError.of(
                "model",
                self.config.model,
                f"it is for {task}, but data={self.config.data!r} is {dataset.info.kind}",
            )
        if self.config.participants:
            public = self.config.fedmd.public
            root = self.public_root or self.data_root
            other = load(public, root) if public not in ("", self.config.data) else None
            return ParticipantImages(dataset, other, self.config, self.streams)
        kinds = {kind.task: kind for kind in (ImageClients, TextClients, SequenceClients)}
        return kinds[task](dataset, self.config, self.streams)

    @property
    def data_folders(self) -> dict[str, str]:
        """By name, the folder of each data set that is read; its name says the content."""
        folders = {self.config.data: self.data.dataset.folder.name}
        if isinstance(self.data, ParticipantImages) and self.data.foreign is not None:
            folders[self.config.fedmd.public] = self.data.foreign.folder.name
        return folders

    @cached_property
    def spec(self) -> ModelSpec:
        data, info = self.data, self.data.dataset.info
        return registry.make_spec(
            self.config, data.input_shape, data.outputs, info.vocabulary, info.target == "tags"
        )

    @cached_property
    def masked(self) -> bool:
        """Whether a client's loss and rows are restricted to the labels it holds."""
        if self.data.dataset.info.target == "number":
            return False
        if self.config.loss.masked == "auto":
            return self.data.task == "text" or self.config.partition != "iid"
        return self.config.loss.masked == "on"

    @cached_property
    def sliced(self) -> bool:
        """Whether clients hold only their own words' rows while training."""
        return self.masked and self.data.task == "text" and self.config.loss.sliced_vocabulary

    @cached_property
    def hostile(self) -> frozenset[int]:
        """The clients that attack."""
        attack, clients = self.config.attack, self.config.clients
        if attack.kind == "none":
            return frozenset()
        count = round(attack.share * clients)
        drawn = self.streams.numpy("hostile").choice(clients, count, replace=False)
        return frozenset(int(client) for client in drawn)

    def model(self, level: Level) -> nn.Module:
        """The resident model of a level; whoever uses it puts in parameters first."""
        if level not in self._models:
            model = registry.build(self.spec.at(level), level.rate).to(self.device)
            set_scaler_rate(model, level.rate / self.config.levels.largest.rate)
            self._models[level] = model
        return self._models[level]

    def trainer(self, level: Level) -> Trainer:
        """The way clients of a level are trained."""
        if level not in self._trainers:
            self._trainers[level] = make_trainer(self, level)
        return self._trainers[level]

    def keep(self, name: str, make: Callable[..., T], level: Level) -> T:
        """What ``make(self, level)`` gave when it was first asked for."""
        if name not in self._kept:
            self._kept[name] = make(self, level)
        kept: T = self._kept[name]
        return kept

    def objective(self, labels: Tensor | None) -> Objective:
        """The local loss of a client that holds ``labels`` (None: all)."""
        if self.data.dataset.info.target == "number":
            return Objective.squared()
        if self.sliced and labels is not None:
            return Objective.sliced(self.data.outputs - len(labels), self.device)
        return Objective.masked(labels, self.data.outputs, self.device)

    def example_objective(self) -> Objective:
        """The local loss of some client, for what must be prepared."""
        return self.objective(self.data.labels(0) if self.masked else None)

    def layout(self, level: Level) -> Layout:
        if level not in self._layouts:
            self._layouts[level] = registry.layout(self.spec.at(level), level.rate)
        return self._layouts[level]


def resolve_device(name: str) -> torch.device:
    """The device that ``execution.device`` names."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError.of(
            "execution.device", name, f"this machine has {torch.cuda.device_count()} CUDA devices"
        )
    return device
