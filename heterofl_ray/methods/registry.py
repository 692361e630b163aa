"""Methods by name. A method is a `simulation.Simulation`: a class whose `run_round` does a round.

Importing this module does not import torch: a method of ours names its class, and `resolve` loads
it. Users add their own with `register_method`.
"""

from __future__ import annotations

import pkgutil
from typing import Any

from heterofl_ray.errors import ConfigError

Method = type[Any]  # of Simulation, which takes torch to import

_ROOM = "heterofl_ray.methods."
METHODS: dict[str, str | Method] = {
    "heterofl": "heterofl_ray.simulation:Simulation",
    "fedavg": _ROOM + "one_size:Largest",
    "standalone": _ROOM + "personal:Standalone",
    "lg-fedavg": _ROOM + "personal:LGFedAvg",
    "alllarge": _ROOM + "one_size:Largest",
    "allsmall": _ROOM + "one_size:Smallest",
    "dropweak": _ROOM + "one_size:DropWeak",
    "local": _ROOM + "personal:Local",
    "fedprox": _ROOM + "local_steps:FedProx",
    "fedrolex": _ROOM + "channels:FedRolex",
    "random": _ROOM + "channels:RandomChannels",
    "fjord": _ROOM + "local_steps:Fjord",
    "inclusivefl": _ROOM + "inclusivefl:InclusiveFL",
    "fedmd": _ROOM + "fedmd:FedMD",
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
