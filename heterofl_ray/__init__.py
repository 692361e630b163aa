"""heterofl-ray: federated learning with clients of unequal strength, on Ray.

    from heterofl_ray import presets, run
    result = run(presets.digits_dynamic())

Names are imported when first used, so that the command line can answer before torch is loaded.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heterofl_ray import presets as presets
    from heterofl_ray.config import ExperimentConfig as ExperimentConfig
    from heterofl_ray.errors import ConfigError as ConfigError
    from heterofl_ray.errors import DataError as DataError
    from heterofl_ray.methods.registry import register_method as register_method
    from heterofl_ray.models.registry import register_model as register_model
    from heterofl_ray.runner import run as run

__version__ = "0.1.0"

_HOME = {
    "ConfigError": "heterofl_ray.errors",
    "DataError": "heterofl_ray.errors",
    "ExperimentConfig": "heterofl_ray.config",
    "register_method": "heterofl_ray.methods.registry",
    "register_model": "heterofl_ray.models.registry",
    "run": "heterofl_ray.runner",
}
__all__ = [
    "ConfigError",
    "DataError",
    "ExperimentConfig",
    "presets",
    "register_method",
    "register_model",
    "run",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    if name == "presets":
        return import_module("heterofl_ray.presets")
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'heterofl_ray' has no attribute {name!r}")
