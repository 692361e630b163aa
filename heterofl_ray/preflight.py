"""Checks of a config against what there is: models, data sets, methods.

Config itself knows ranges and grammar; names belong to registries that users extend. Nothing here
imports torch, so a wrong name is answered at once.
"""

from __future__ import annotations

from pathlib import Path

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data import catalog
from heterofl_ray.errors import ConfigError
from heterofl_ray.methods.registry import METHODS
from heterofl_ray.models import registry


def check(config: ExperimentConfig, stored_data: list[str]) -> None:
    """Refuse a config whose names are unknown or do not fit together."""
    family = registry.family(config.model)
    if config.method not in METHODS:
        raise ConfigError.unknown("method", config.method, METHODS)
    source = catalog.find(config.data)
    if source is None and config.data not in stored_data:
        raise ConfigError.unknown("data", config.data, sorted({*catalog.SOURCES, *stored_data}))
    if source is not None and source.task != family.task:
        fitting = [name for name, kind in registry.MODELS.items() if kind.task == source.task]
        raise ConfigError.of(
            "model",
            config.model,
            f"data={config.data} is {source.task}; use {' or '.join(fitting)}",
        )
    if config.network.pretrained:
        _check_pretrained(config.network.pretrained, family.task)


def _check_pretrained(folder: str, task: str) -> None:
    setting = "network.pretrained"
    if task != "sequences":
        raise ConfigError.of(setting, folder, "only model=encoder takes weights from a folder")
    for name in ("config.json", "model.safetensors"):
        if not (Path(folder) / name).is_file():
            raise ConfigError.of(setting, folder, f"a folder with {name} is needed")
