"""A finished run: its scores, its history and its models, from memory or from its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from torch import Tensor, nn

from heterofl_ray import state
from heterofl_ray.clients.scoring import testing_mode
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError, DataError, shown
from heterofl_ray.evaluation import Scores, by_level, global_scores
from heterofl_ray.mixes import Level
from heterofl_ray.models import registry
from heterofl_ray.models.layers import StaticBatchNorm, assign, set_scaler_rate
from heterofl_ray.models.spec import ModelSpec
from heterofl_ray.plain_files import read_json
from heterofl_ray.settings import load_run_yaml
from heterofl_ray.submodels.depth import of_depth, own_name
from heterofl_ray.submodels.plan import SubmodelPlan
from heterofl_ray.submodels.selectors import leading

Parameters = Mapping[str, Tensor]

CLIENTS = "clients.safetensors"
_MOST = 2**31
"""Of anything that is counted in a result: classes, pixels, words."""


@dataclass(frozen=True, repr=False)
class RunResult:
    """What `run` gives back, and what `RunResult.open` reads from a run's folder."""

    config: ExperimentConfig
    summary: Mapping[str, Any]
    """The object that ``heterofl-ray run --json`` prints."""
    history: pa.Table
    spec: ModelSpec
    parameters: Parameters
    statistics: Parameters
    """'LEVEL/LAYER.mean' and '….variance' of every tested level's static batch norms."""
    clients: Mapping[int, Parameters] = field(default_factory=dict)
    """What clients keep to themselves, by client."""

    def __repr__(self) -> str:
        return f"RunResult({self.summary['run_dir']!r}, global={self.summary['global']})"

    def global_model(self) -> nn.Module:
        """The global model, ready for inference."""
        if self.config.participants:
            raise ConfigError(
                "method 'fedmd' has no global model, only participants' own; see submodel('p0')"
            )
        return self.submodel(self.config.levels.largest.name)

    def submodel(self, level_name: str) -> nn.Module:
        """A level's slice of the global model, or a participant's own, ready for inference."""
        mix = self.config.levels
        names = [level.name for level in mix.levels]
        if level_name not in names:
            raise ConfigError.unknown("level", level_name, names)
        if self.clients and not self.config.participants:
            raise ConfigError(
                f"method {self.config.method!r} leaves no global model: clients keep layers to "
                "themselves; see RunResult.clients, or clients.safetensors in the run's folder"
            )
        level = mix[level_name]
        self._check_tensors(level)
        model = registry.build(self.spec.at(level), level.rate)
        assign(model, self._cut(level))
        set_scaler_rate(model, level.rate / mix.largest.rate)
        for name, module in model.named_modules():
            if isinstance(module, StaticBatchNorm):
                key = f"{level_name}/{name}"
                if f"{key}.mean" not in self.statistics:
                    raise ConfigError(
                        f"level {level_name!r} was not tested, so its batch norms have no "
                        "statistics; run with evaluation.levels=final"
                    )
                module.mean = self._statistic(f"{key}.mean", module.weight)
                module.variance = self._statistic(f"{key}.variance", module.weight)
        testing_mode(model)
        return model

    def _statistic(self, name: str, like: Tensor) -> Tensor:
        found = self.statistics.get(name)
        if found is None or found.shape != like.shape or found.dtype != like.dtype:
            raise DataError(f"{self._folder}: statistics.safetensors has no {name} that fits")
        return found

    def _check_tensors(self, level: Level) -> None:
        """Refuse a model that its file does not hold, before memory is taken for it."""
        of = level if level.depth or level.participant else self.config.levels.largest
        file, tensors = self._file_of(level)
        try:
            layout = registry.layout(self.spec.at(of), of.rate)
        except (ValueError, TypeError, RuntimeError, ArithmeticError, IndexError) as error:
            raise DataError(f"{self._folder}: its model cannot be built: {error}") from None
        for name, axes in layout.items():
            wanted = tuple(axis.width for axis in axes)
            held = tensors.get(own_name(name, of.depth), tensors.get(name))
            if held is None or tuple(held.shape) != wanted:
                found = "not there" if held is None else f"of shape {tuple(held.shape)}"
                raise DataError(
                    f"{self._folder}: {file} is not the model of its config.yaml: "
                    f"{name} is {found}, {wanted} is needed"
                )

    @property
    def _folder(self) -> str:
        return str(self.summary["run_dir"])

    def _file_of(self, level: Level) -> tuple[str, Parameters]:
        """The file that has a level's model, and its tensors."""
        if level.participant is None:
            return "model.safetensors", self.parameters
        return CLIENTS, self.clients.get(self.config.levels.levels.index(level), {})

    def _cut(self, level: Level) -> Parameters:
        if level.participant is not None:
            return self._file_of(level)[1]
        inner = registry.layout(self.spec.at(level), level.rate)
        if level.depth:
            return of_depth(self.parameters, inner, level.depth)
        outer = registry.layout(self.spec, self.config.levels.largest.rate)
        return SubmodelPlan.of(outer, leading(outer, inner)).extract(self.parameters)

    def save(self, folder: Path) -> None:
        pq.write_table(self.history, folder / "history.parquet")
        state.save(folder / "model.safetensors", self.parameters)
        state.save(folder / "statistics.safetensors", self.statistics)
        if self.clients:
            state.save(folder / CLIENTS, state.flat(self.clients))
        values = {
            **self.summary,
            "config_hash": self.config.hash(),
            "input_shape": self.spec.input_shape,
            "outputs": self.spec.outputs,
            "vocabulary": self.spec.vocabulary,
            "per_token": self.spec.per_token,
        }
        text = json.dumps(values, indent=1) + "\n"
        (folder / "result.json").write_text(text, encoding="utf-8")

    @classmethod
    def open(cls, folder: Path) -> RunResult:
        """Read a finished run."""
        config, values, spec = _read_summary(folder)
        try:
            history = pq.read_table(folder / "history.parquet")
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{folder} is not the folder of a finished run: {error}") from None
        values["run_dir"] = str(folder)  # it may have been moved
        return cls(
            config,
            values,
            history,
            spec,
            state.load(folder / "model.safetensors"),
            state.load(folder / "statistics.safetensors"),
            state.by_client(state.load(folder / CLIENTS)) if (folder / CLIENTS).exists() else {},
        )


def _read_summary(folder: Path) -> tuple[ExperimentConfig, dict[str, Any], ModelSpec]:
    """What a finished run's folder says of it; no model is built from it yet."""
    try:
        settings, _ = load_run_yaml(folder / "config.yaml")
        config = ExperimentConfig.from_dict(settings)
        values = read_json(folder / "result.json")
        shape = tuple(map(_count, values.pop("input_shape")))
        spec = registry.make_spec(
            config,
            shape,
            _count(values.pop("outputs")),
            _count(values.pop("vocabulary", 0)),
            bool(values.pop("per_token", False)),
        )
        for name, kind in _PARTS.items():
            if not isinstance(values[name], kind):
                raise TypeError(f"{name} is {shown(values[name])}")
    except KeyError as error:
        raise DataError(f"{folder}: its result.json is damaged: it lacks {error}") from None
    except (DataError, ValueError, TypeError, AttributeError) as error:
        raise DataError(f"{folder} is not the folder of a finished run: {error}") from None
    values.pop("config_hash", None)
    return config, values, spec


_PARTS = {"global": dict, "local": dict, "levels": dict, "model_sha256": str}


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < _MOST:
        raise TypeError(f"{shown(value)} is no size")
    return value


def summarise(
    config: ExperimentConfig,
    folder: Path,
    megabytes: tuple[float, float],
    scores: Mapping[str, Scores],
    parameters: Parameters,
    seconds: float,
    clients: Mapping[int, Parameters],
    epsilon: float | None = None,
) -> dict[str, Any]:
    """The contract of ``run --json``; ``megabytes`` went to clients and came back.

    ``epsilon`` is what it cost in privacy, where that is bounded.
    The fingerprint is over the global parameters, and over what ``clients`` keep where they do.
    """
    final = global_scores(scores, config.levels.largest.name)
    if final is None:
        raise ValueError("a run ends with a test of its global model")
    return {
        "run_dir": str(folder),
        "rounds": config.rounds,
        "seconds": round(seconds, 3),
        "global": final.overall,
        "local": final.local,
        "levels": {name: result.overall for name, result in by_level(scores).items()},
        "megabytes_down": megabytes[0],
        "megabytes_up": megabytes[1],
        "model_sha256": state.fingerprint({**parameters, **state.flat(clients)}),
        **({} if epsilon is None else {"epsilon": epsilon, "delta": config.privacy.delta}),
    }
