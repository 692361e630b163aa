"""A global model that begins as another run's: read from its file, known by its checksum.

The checksum is the ``model_sha256`` that the other run told. It is part of the settled config, so
that equal configs still give equal bytes; where the file lies is not.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from torch import Tensor

from heterofl_ray import state
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.parameter_server import ParameterServer


class StartedServer(ParameterServer):
    """Begins from the model of ``lg.start``, where that names one."""

    def __init__(self, bench: Workbench, names: Collection[str] | None = None) -> None:
        super().__init__(bench, names)
        if bench.config.lg.start:
            found = read_start(bench)
            for name, tensor in self.parameters.items():
                tensor.copy_(found[name])


def settle_start(config: ExperimentConfig) -> ExperimentConfig:
    """The config with the checksum of the model it begins from, and the whole path to it."""
    start = config.lg.start
    if not start or config.lg.start_sha256:
        return config
    place = str(Path(start).expanduser().absolute())
    checksum = state.fingerprint(_tensors(start))
    return config.merge({"lg": {"start": place, "start_sha256": checksum}})


def read_start(bench: Workbench) -> dict[str, Tensor]:
    """The model to begin from; one that has changed, or does not fit, is refused."""
    lg, found = bench.config.lg, _tensors(bench.config.lg.start)
    if state.fingerprint(found) != lg.start_sha256:
        fault = f"it is another model now than that of lg.start_sha256={lg.start_sha256[:8]}…"
        raise ConfigError.of("lg.start", lg.start, fault)
    for name, axes in bench.layout(bench.config.levels.largest).items():
        wanted = tuple(axis.width for axis in axes)
        if name not in found or tuple(found[name].shape) != wanted:
            fault = f"must hold this run's largest model, but has no {name} of shape {wanted}"
            raise ConfigError.of("lg.start", lg.start, fault)
    return found


def _tensors(place: str) -> dict[str, Tensor]:
    path = Path(place).expanduser()
    file = path / "model.safetensors" if path.is_dir() else path
    if not file.is_file():
        fault = "must be a finished run's folder, or its model.safetensors"
        raise ConfigError.of("lg.start", place, fault)
    return state.load(file)
