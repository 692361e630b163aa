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
from heterofl_ray.errors import ConfigError, DataError
from heterofl_ray.evaluation import Scores, by_level, global_scores
from heterofl_ray.mixes import Level
from heterofl_ray.models import registry
from heterofl_ray.models.layers import StaticBatchNorm, assign, set_scaler_rate
from heterofl_ray.models.spec import ModelSpec
from heterofl_ray.settings import load_yaml
from heterofl_ray.submodels.depth import of_depth
from heterofl_ray.submodels.plan import SubmodelPlan
from heterofl_ray.submodels.selectors import leading

Parameters = Mapping[str, Tensor]

CLIENTS = "clients.safetensors"


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
        return self.submodel(self.config.levels.largest.name)

    def submodel(self, level_name: str) -> nn.Module:
        """A level's slice of the global model, ready for inference."""
        mix = self.config.levels
        names = [level.name for level in mix.levels]
        if level_name not in names:
            raise ConfigError.unknown("level", level_name, names)
        if self.clients:
            raise ConfigError(
                f"method {self.config.method!r} leaves no global model: clients keep layers to "
                "themselves; see RunResult.clients, or clients.safetensors in the run's folder"
            )
        level = mix[level_name]
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
                module.mean = self.statistics[f"{key}.mean"]
                module.variance = self.statistics[f"{key}.variance"]
        testing_mode(model)
        return model

    def _cut(self, level: Level) -> Parameters:
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
        try:
            values = json.loads((folder / "result.json").read_text(encoding="utf-8"))
            settings = load_yaml(folder / "config.yaml")
            settings.pop("data_dir", None)
            config = ExperimentConfig.from_dict(settings)
            spec = registry.make_spec(
                config,
                tuple(values.pop("input_shape")),
                values.pop("outputs"),
                values.pop("vocabulary", 0),
                values.pop("per_token", False),
            )
            history = pq.read_table(folder / "history.parquet")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{folder} is not the folder of a finished run: {error}") from None
        values.pop("config_hash", None)
        return cls(
            config,
            values,
            history,
            spec,
            state.load(folder / "model.safetensors"),
            state.load(folder / "statistics.safetensors"),
            state.by_client(state.load(folder / CLIENTS)) if (folder / CLIENTS).exists() else {},
        )


def summarise(
    config: ExperimentConfig,
    folder: Path,
    megabytes: tuple[float, float],
    scores: Mapping[str, Scores],
    parameters: Parameters,
    seconds: float,
    clients: Mapping[int, Parameters],
) -> dict[str, Any]:
    """The contract of ``run --json``; ``megabytes`` went to clients and came back.

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
    }
