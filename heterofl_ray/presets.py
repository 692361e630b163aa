"""Named experiments: functions that return a full config, the paper's where the paper has one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from heterofl_ray.config import (
    ExperimentConfig,
    NetworkConfig,
)
from heterofl_ray.errors import ConfigError, suggestion
from heterofl_ray.settings import load_yaml


def digits_dynamic() -> ExperimentConfig:
    """The paper's CNN at half width on embedded 8x8 digits, all five levels: no download."""
    return ExperimentConfig(
        data="digits",
        model="conv",
        mix="a-b-c-d-e",
        rounds=30,
        local_epochs=5,
        batch_size=10,
        lr=0.05,
        evaluate_every=5,
        network=NetworkConfig(hidden=(32, 64, 128, 256)),
    )


def pydocs_dynamic() -> ExperimentConfig:
    """A small Transformer on Python's help topics, all five levels: no download."""
    return ExperimentConfig(
        data="pydocs",
        model="transformer",
        mix="a-b-c-d-e",
        rounds=20,
        local_epochs=1,
        lr=0.1,
        evaluate_every=5,
        network=NetworkConfig(embedding=128, feedforward=256, layers=2),
    )


PRESETS: dict[str, Callable[[], ExperimentConfig]] = {
    "digits-dynamic": digits_dynamic,
    "pydocs-dynamic": pydocs_dynamic,
}


def load(name_or_path: str) -> ExperimentConfig:
    """A preset's config, or a YAML file's; the file may start from ``preset: NAME``."""
    if name_or_path in PRESETS:
        return PRESETS[name_or_path]()
    path = Path(name_or_path)
    if path.suffix not in (".yaml", ".yml"):
        raise ConfigError(
            f"{name_or_path!r} is neither a preset nor a YAML file: "
            f"{suggestion(name_or_path, PRESETS)}presets: {', '.join(PRESETS)}"
        )
    values = load_yaml(path)
    base = values.pop("preset", None)
    if base is None:
        return ExperimentConfig.from_dict(values)
    if base not in PRESETS:
        raise ConfigError.unknown("preset", base, PRESETS)
    return PRESETS[base]().merge(values)
