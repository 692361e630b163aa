"""Finding the Ray cluster that a run names."""

from __future__ import annotations

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import ray

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError, RunFailed
from heterofl_ray.execution.authentication import WANTS_TOKEN, ensure_token, is_refused
from heterofl_ray.execution.own_ray import OWN, QUIET, keep_stdout_clean, start

ANSWER_SECONDS = 3.0
# What a worker process loads while it waits for its first actor: the imports take it seconds.
# Ray keeps one such process for each CPU, so it is worth it only where most of them get an actor.
PRELOADED = "heterofl_ray.execution.actors"


def connect_early(config: ExperimentConfig) -> None:
    """Connect while another thread imports what a run needs; both take seconds, mostly waiting.

    Ray is started in the main thread: its processes end with the thread that started them. They
    are ended with this process.
    """
    with ThreadPoolExecutor(1) as beside:
        # an import that fails is tried again, and heard of, by whoever needs it
        beside.submit(import_module, "heterofl_ray.execution.ray_backend")
        beside.submit(import_module, "heterofl_ray.runner")
        connect(config)


def connect(config: ExperimentConfig) -> bool:
    """Connect to the cluster the config names; True if one was started for this run.

    'local' always starts one; 'auto' does when none is running on this machine.

    A Ray that is already running is used, and never shut down by us.
    """
    keep_stdout_clean()
    address = config.execution.address
    if ray.is_initialized():
        _check_same(address)
        return False
    named = os.environ.get("RAY_ADDRESS", "") if address == "auto" else address
    try:
        if address != "local":
            _check_answers(named)
            ray.init(address=address, **QUIET)
            return False
    except PermissionError as error:
        raise ConfigError.of("execution.address", named, str(error)) from None
    except (ConnectionError, ValueError, RuntimeError) as error:
        if named:
            reason = str(error).splitlines()[0]
            raise ConfigError.of(
                "execution.address", named, f"no Ray cluster answers there ({reason})"
            ) from None
    ensure_token()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    cpus = os.cpu_count() or 1
    if config.execution.workers == "auto" or 2 * int(config.execution.workers) >= cpus:
        os.environ.setdefault("RAY_preload_python_modules", PRELOADED)
    try:
        start(cpus)
    except Exception as error:  # Ray has no kind of its own for it
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RunFailed(f"Ray could not be started on this machine: {reason}") from error
    return True


def _check_answers(address: str) -> None:
    """Knock at 'host:port' first: Ray itself would try for twenty seconds, and talk about it."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit()):
        return  # a name that Ray knows what to do with, or will refuse at once
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ConnectionError(getattr(error, "strerror", None) or str(error)) from None
    if "://" not in address and is_refused(address, ANSWER_SECONDS):
        raise PermissionError(f"the Ray there {WANTS_TOKEN}")


def _check_same(address: str) -> None:
    """This process has a Ray already; a config that names another one must not end up on it."""
    if address == "auto":
        return
    context = ray.get_runtime_context()
    here = context.gcs_address
    same = context.namespace == OWN if address == "local" else _place(address) == _place(here)
    if not same:
        raise ConfigError.of(
            "execution.address",
            address,
            f"this process is connected to the Ray at {here}; use auto, or a process of its own",
        )


def _place(address: str) -> tuple[str, str]:
    """Host and port, names of this machine being one host."""
    host, _, port = address.rpartition(":")
    try:
        host = socket.gethostbyname(host)
    except OSError:
        return host, port
    mine = {"127.0.0.1", ray.util.get_node_ip_address()}
    return ("here" if host in mine else host), port


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
