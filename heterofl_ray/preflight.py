"""Checks of a config against what there is: models, data sets, methods.

Config itself knows ranges and grammar; names belong to registries that users extend. Nothing here
imports torch, so a wrong name is answered at once.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data import catalog
from heterofl_ray.data.places import raw_dir, stored
from heterofl_ray.errors import ConfigError, DataError
from heterofl_ray.methods.registry import METHODS
from heterofl_ray.models import registry


def is_known(config: ExperimentConfig, stored_data: list[str]) -> bool:
    """Whether there is data of that name."""
    return catalog.find(config.data) is not None or config.data in stored_data


def check(config: ExperimentConfig, stored_data: list[str]) -> None:
    """Refuse a config whose names are unknown or do not fit together."""
    family = registry.family(config.model)
    if config.method not in METHODS:
        raise ConfigError.unknown("method", config.method, METHODS)
    source = catalog.find(config.data)
    if not is_known(config, stored_data):
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
    _check_participants(config, stored_data)
    if config.attack.kind == "label_flip" and family.task != "images":
        raise ConfigError.of(
            "attack.kind", "label_flip", f"only for images; data={config.data} is {family.task}"
        )
    if config.privacy.on and importlib.util.find_spec("dp_accounting") is None:
        raise ConfigError.of(
            "privacy.noise",
            config.privacy.noise,
            "dp-accounting is missing; pip install 'heterofl-ray[privacy]'",
        )


def check_data(config: ExperimentConfig, root: Path) -> None:
    """Refuse data that would have to be downloaded first."""
    source = catalog.find(config.data)
    if source is None or source.kind != "files" or config.data in stored(root):
        return
    raw = raw_dir(root, config.data)
    if not (raw.is_dir() and any(raw.iterdir())):
        raise DataError(
            f"{config.data} is not there yet: {catalog.missing_files(config.data, raw)}"
        )


def _check_participants(config: ExperimentConfig, stored_data: list[str]) -> None:
    """Names in the settings of method=fedmd."""
    images = [name for name, kind in registry.MODELS.items() if kind.task == "images"]
    for participant in config.participants:
        if participant.model not in images:
            raise ConfigError.unknown("model in fedmd.participants", participant.model, images)
    public = config.fedmd.public if config.participants else ""
    source = catalog.find(public) if public else None
    if public and source is None and public not in stored_data:
        raise ConfigError.unknown("fedmd.public", public, sorted({*catalog.SOURCES, *stored_data}))
    if source is not None and source.task != "images":
        raise ConfigError.of("fedmd.public", public, f"is {source.task}, not images")


def _check_pretrained(folder: str, task: str) -> None:
    setting = "network.pretrained"
    if task != "sequences":
        raise ConfigError.of(setting, folder, "only model=encoder takes weights from a folder")
    for name in ("config.json", "model.safetensors"):
        if not (Path(folder) / name).is_file():
            raise ConfigError.of(setting, folder, f"a folder with {name} is needed")
