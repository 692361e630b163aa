"""Finding a Ray cluster, or starting one for this run."""

from __future__ import annotations

import os

import ray

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError

# A run keeps few and small objects there; Ray spills to disk beyond it.
OBJECT_STORE_BYTES = 2 * 1024**3


def connect(config: ExperimentConfig) -> bool:
    """Connect to the cluster the config names; True if one was started for this run.

    'local' always starts one; 'auto' does when none is running on this machine.

    A Ray that is already running is used, and never shut down by us.
    """
    if ray.is_initialized():
        return False
    address = config.execution.address
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if address != "local":
            ray.init(address=address, **quiet)
            return False
    except (ConnectionError, ValueError, RuntimeError) as error:
        if address != "auto" or os.environ.get("RAY_ADDRESS"):
            reason = str(error).splitlines()[0]
            shown = os.environ.get("RAY_ADDRESS", address) if address == "auto" else address
            raise ConfigError.of(
                "execution.address", shown, f"no Ray cluster answers there ({reason})"
            ) from None
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(
        address="local",
        num_cpus=os.cpu_count(),
        include_dashboard=False,
        object_store_memory=OBJECT_STORE_BYTES,
        **quiet,
    )
    return True


def capacity(cpus: float, gpus: float) -> int:
    """How many workers of this size the living nodes have room for, were they empty."""
    count = 0
    for node in ray.nodes():
        if not node["Alive"]:
            continue
        resources = node["Resources"]
        room = int(resources.get("CPU", 0) / cpus + 1e-9)
        if gpus:
            room = min(room, int(resources.get("GPU", 0) / gpus + 1e-9))
        count += room
    return count


def worker_gpus(setting: float | str) -> float:
    """The GPUs of a worker; for 'auto' a quarter of one, where the cluster has any."""
    if isinstance(setting, str):
        return 0.25 if ray.cluster_resources().get("GPU", 0) else 0.0
    return float(setting)
