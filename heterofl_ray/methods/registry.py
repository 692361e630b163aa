"""Methods by name. A method is a `simulation.Simulation`: a class whose `run_round` does a round.

Importing this module does not import torch: a method of ours names its class, and `resolve` loads
it. Users add their own with `register_method`.
"""

from __future__ import annotations

import pkgutil
from typing import Any

from heterofl_ray.errors import ConfigError

Method = type[Any]  # of Simulation, which lies in a room above this one

METHODS: dict[str, str | Method] = {
    "heterofl": "heterofl_ray.simulation:Simulation",
}


def register_method(name: str, method: Method) -> None:
    """Make ``method`` available as ``method=name``."""
    if not name or isinstance(METHODS.get(name), str):
        raise ConfigError.of("method name", name, "must be new and not empty")
    METHODS[name] = method


def resolve(name: str) -> Method:
    """The class of the method ``name``."""
    if name not in METHODS:
        raise ConfigError.unknown("method", name, METHODS)
    found = METHODS[name]
    method: Method = pkgutil.resolve_name(found) if isinstance(found, str) else found
    return method
