"""What a trial needs of the cluster: a server's place and its workers', and whether that can be."""

from __future__ import annotations

from collections.abc import Sequence

import ray

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.execution import cluster

Bundle = dict[str, float]


def trial_bundles(config: ExperimentConfig, spread: bool) -> list[Bundle]:
    """First where the trial's driver and server are, then its workers, if it has any.

    Without workers the first trains by itself. On a cluster of several machines it is tied to the
    one where the sweep's folder is, unless trials may spread.
    """
    execution = config.execution
    gpus = cluster.worker_gpus(execution.worker_gpus)
    worker = {"CPU": float(execution.worker_cpus)} | ({"GPU": gpus} if gpus else {})
    if execution.backend == "ray":
        first: Bundle = {"CPU": 1.0}
        workers = [dict(worker) for _ in range(_workers(config))]
    else:
        first, workers = {"CPU": float(execution.threads)}, []
        if gpus and execution.device != "cpu":
            first["GPU"] = gpus
    if not spread and sum(node["Alive"] for node in ray.nodes()) > 1:
        first[f"node:{ray.util.get_node_ip_address()}"] = 0.001
    return [first, *workers]


def _workers(config: ExperimentConfig) -> int:
    """Each trial has a fixed number: 'auto' would be all there is room for, every time."""
    return 1 if config.execution.workers == "auto" else int(config.execution.workers)


def trial_workers(config: ExperimentConfig) -> list[str]:
    return [f"execution.workers={_workers(config)}"] if config.execution.backend == "ray" else []


def check_fits(bundles: Sequence[Bundle]) -> None:
    """Refuse what the cluster can never give, were it empty; Tune would wait for it for ever."""
    rooms = [dict(node["Resources"]) for node in ray.nodes() if node["Alive"]]
    for bundle in sorted(bundles, key=lambda bundle: -sum(bundle.values())):
        for room in rooms:
            if all(room.get(name, 0.0) + 1e-9 >= amount for name, amount in bundle.items()):
                for name, amount in bundle.items():
                    room[name] = room.get(name, 0.0) - amount
                break
        else:
            raise ConfigError(
                f"{_setting(bundles)}: a trial needs {_text(bundles)}, and the cluster has "
                f"{_there()}"
            )


def _setting(bundles: Sequence[Bundle]) -> str:
    """The setting that asks for too much."""
    if sum(bundle.get("GPU", 0) for bundle in bundles) > ray.cluster_resources().get("GPU", 0):
        return "execution.worker_gpus"
    if len(bundles) > 1:
        return f"execution.workers={len(bundles) - 1}"
    return f"execution.threads={bundles[0]['CPU']:g}"


def _text(bundles: Sequence[Bundle]) -> str:
    counted: dict[str, int] = {}
    for bundle in bundles:
        text = " and ".join(f"{amount:g} {name}" for name, amount in bundle.items())
        counted[text] = counted.get(text, 0) + 1
    return " + ".join(
        f"{count} x ({text})" if count > 1 else text for text, count in counted.items()
    )


def _there() -> str:
    total = ray.cluster_resources()
    nodes = sum(node["Alive"] for node in ray.nodes())
    where = "" if nodes == 1 else f" on {nodes} nodes"
    return f"{total.get('CPU', 0):g} CPU and {total.get('GPU', 0):g} GPU{where}"
