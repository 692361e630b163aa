"""What clients' training takes in FLOPs, by level.

Counting imports a good deal of torch, a second or two of each run's start. So what was counted for
one of our models is kept beside the data sets and looked up from then on.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from heterofl_ray.clients.jobs import ClientReport
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.methods.registry import resolve
from heterofl_ray.models import registry
from heterofl_ray.models.spec import ModelSpec
from heterofl_ray.simulation import Simulation
from heterofl_ray.tracking.folder import partial

Flops = Callable[[ClientReport], float]


def training_flops(config: ExperimentConfig, spec: ModelSpec, cache: Path) -> Flops | None:
    """What a client's training takes: forward and backward over its examples, all epochs.

    A backward pass counts as two forward ones. Levels' models are counted, and the method says
    which of them a client trains. Text counts windows, each as wide as the level's
    model with the whole vocabulary, also where a client holds only its own words' rows. None for a
    model that cannot be traced without data.
    """
    forward = _forward(config, spec, cache)
    if forward is None:
        return None
    method: type[Simulation] = resolve(config.method)
    text = registry.family(spec.name).task == "text"
    tokens = spec.input_shape[0] if text else 1  # a text's examples are its tokens

    def flops(report: ClientReport) -> float:
        passes = report.examples / tokens * config.local_epochs
        trained = 3 * method.example_flops(config, report.level, forward) * passes
        return trained + report.forwards * forward[report.level]

    return flops


def _forward(config: ExperimentConfig, spec: ModelSpec, cache: Path) -> dict[str, float] | None:
    """FLOPs of one example forward, by level."""
    if not isinstance(registry.family(spec.name).factory, str):
        return _count(config, spec)  # a user's own, which may be another one tomorrow
    path = cache / f"flops-{_key(config, spec)}.json"
    try:
        known: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))
        return known
    except (OSError, ValueError):
        counted = _count(config, spec)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        scratch = partial(path)
        scratch.write_text(json.dumps(counted), encoding="utf-8")
        scratch.replace(path)
    except OSError:  # counted again next time
        pass
    return counted


def _count(config: ExperimentConfig, spec: ModelSpec) -> dict[str, float] | None:
    from heterofl_ray.models.costs import model_costs

    try:
        return {
            level.name: model_costs(spec.at(level), level.rate).flops
            for level in config.levels.levels
        }
    except Exception:  # noqa: BLE001 - a user's model may raise anything; training will say it
        return None


def _key(config: ExperimentConfig, spec: ModelSpec) -> str:
    """Names the model's shape, and the code that makes and counts it."""
    code = max(path.stat().st_mtime_ns for path in Path(registry.__file__).parent.glob("*.py"))
    levels = [dataclasses.asdict(level) for level in config.levels.levels]
    parts = [dataclasses.asdict(spec), levels, version("torch"), code]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
