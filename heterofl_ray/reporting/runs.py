"""A run as a report sees it: settings, history, scores and costs, without its weights.

Unfinished runs are read as far as they go: from history.parquet, or from the last checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeGuard

import pyarrow as pa
import pyarrow.parquet as pq

from heterofl_ray import checkpoint
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.info import read_info
from heterofl_ray.data.places import data_dir, stored_name
from heterofl_ray.errors import ConfigError, DataError
from heterofl_ray.models import registry
from heterofl_ray.models.costs import Costs, mix_costs, model_costs
from heterofl_ray.models.spec import ModelSpec
from heterofl_ray.plain_files import read_json
from heterofl_ray.settings import load_run_yaml

Columns = Mapping[str, Sequence[float | None]]
Price = Callable[[ModelSpec, float], Costs]


class Missing(Exception):
    """Something cannot be shown; the message is the sentence that says why."""


@dataclass(frozen=True)
class Metric:
    """A score, its unit and which way is better."""

    name: str
    larger_is_better: bool
    unit: str = ""

    def best(self, values: Sequence[float]) -> float:
        return max(values) if self.larger_is_better else min(values)

    def text(self, value: float) -> str:
        return f"{value:.2f}{self.unit}" if value < 1000 else f"{value:,.0f}{self.unit}"


METRICS = (
    *(Metric(name, True, " %") for name in ("accuracy", "matthews", "pearson", "f1")),
    Metric("perplexity", False),
)


@dataclass(frozen=True)
class Curve:
    """A quantity over the rounds for which it is known."""

    rounds: Sequence[int]
    values: Sequence[float]


@dataclass(frozen=True)
class Run:
    """What a run's folder tells."""

    folder: Path
    config: ExperimentConfig
    columns: Columns
    """The history: a list for each column, one entry per round."""
    summary: Mapping[str, Any]
    """What ``run --json`` printed; empty while unfinished."""
    spec: ModelSpec | None
    """None where the shape of its data is no longer known."""
    price: Price = model_costs

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @property
    def rounds(self) -> int:
        """Rounds that were done."""
        return int(max(self.column("round"), default=0))

    @property
    def finished(self) -> bool:
        return bool(self.summary)

    @property
    def seconds(self) -> float:
        return float(self.summary.get("seconds", sum(self.column("seconds"))))

    def column(self, name: str) -> list[float]:
        """A column's values, without those that are missing or not finite."""
        return [value for value in self.columns.get(name, ()) if _is_number(value)]

    def has(self, *names: str) -> bool:
        return all(self.column(name) for name in names)

    def curve(self, name: str) -> Curve:
        """A column over the rounds, where it has a number."""
        points = [
            (int(number), value)
            for number, value in zip(
                self.columns.get("round", ()), self.columns.get(name, ()), strict=False
            )
            if _is_number(number) and _is_number(value)
        ]
        return Curve([number for number, _ in points], [value for _, value in points])

    def updates(self) -> dict[str, int]:
        """Client-updates that counted, by level."""
        return {
            level.name: round(sum(self.column(f"clients_{level.name}")))
            for level in self.config.levels.levels
        }

    @property
    def is_text(self) -> bool:
        known = registry.MODELS.get(self.config.model)
        return known is not None and known.task == "text"

    @property
    def masks_labels(self) -> bool:
        """Whether clients train only the rows of labels they hold, as the workbench decides it."""
        if self.config.loss.masked == "auto":
            return self.is_text or self.config.partition != "iid"
        return self.config.loss.masked == "on"

    # ---- scores -----------------------------------------------------------------------------

    @cached_property
    def metric(self) -> Metric | None:
        """The score it was tested by, the first of several; None: not tested yet."""
        tested = [*self.summary.get("global", {})]
        tested += [name.removeprefix("global_") for name in self.columns if self.has(name)]
        known = {metric.name: metric for metric in METRICS}
        return next((known[name] for name in tested if name in known), None)

    def score(self, kind: str = "global") -> float | None:
        """The last 'global' or 'local' score."""
        if self.metric is None:
            return None
        value = self.summary.get(kind, {}).get(self.metric.name)
        if _is_number(value):
            return float(value)
        return next(reversed(self.column(f"{kind}_{self.metric.name}")), None)

    @property
    def best(self) -> tuple[int, float] | None:
        """The round and the value of the best global score."""
        if self.metric is None:
            return None
        curve = self.curve(f"global_{self.metric.name}")
        if not curve.values:
            return None
        place = curve.values.index(self.metric.best(curve.values))
        return curve.rounds[place], curve.values[place]

    def level_scores(self) -> dict[str, float]:
        """The last score of every level's sub-model that was tested, the largest first."""
        if self.metric is None:
            return {}
        found: dict[str, float] = {}
        for level in self.config.levels.levels:
            value = self.summary.get("levels", {}).get(level.name, {}).get(self.metric.name)
            tested = self.column(f"level_{level.name}_{self.metric.name}")
            if _is_number(value):
                found[level.name] = float(value)
            elif tested:
                found[level.name] = tested[-1]
        return found

    # ---- costs ------------------------------------------------------------------------------

    @property
    def known_spec(self) -> ModelSpec:
        if self.spec is None:
            raise Missing(
                f"the model of {self.name} cannot be built here: its data set or its model's "
                "name is not known"
            )
        return self.spec

    def costs(self) -> dict[str, Costs]:
        """What each level's model costs, the largest first."""
        spec = self.known_spec
        try:
            levels = self.config.levels.levels
            return {level.name: self.price(spec.at(level), level.rate) for level in levels}
        except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
            # a user's own model may not run without data
            raise Missing(f"the model of {self.name} cannot be measured: {error}") from None

    def average_costs(self) -> Costs:
        """Of the average client of its mix."""
        return mix_costs(self.config.levels, list(self.costs().values()))


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and math.isfinite(value)


def open_runs(folders: Sequence[Path]) -> list[Run]:
    """Read runs; levels that several of them share are priced once."""
    price = cache(model_costs)
    return [open_run(folder, price) for folder in folders]


def open_run(folder: Path, price: Price = model_costs) -> Run:
    """Read what is there of a run."""
    try:
        settings, written = load_run_yaml(folder / "config.yaml")
        root = data_dir(written)
        config = ExperimentConfig.from_dict(settings)
    except ConfigError as error:
        raise DataError(f"{folder} is not the folder of a run: {error}") from None
    result = _read_result(folder / "result.json")
    return Run(
        folder=folder,
        config=config,
        columns=_read_history(folder),
        summary=result,
        spec=_spec(config, result, root),
        price=price,
    )


def _read_result(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    values = read_json(path)
    if not isinstance(values, dict):
        raise DataError(f"{path} is damaged: it holds no result")
    return values


def _read_history(folder: Path) -> Columns:
    path = folder / "history.parquet"
    if path.is_file():
        try:
            table = pq.read_table(path)
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{path} is damaged: {error}") from None
        columns: Columns = table.to_pydict()
        return columns
    rows = checkpoint.rows(folder / "checkpoints")
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _spec(config: ExperimentConfig, result: Mapping[str, Any], root: Path) -> ModelSpec | None:
    """The model's shape: from the result, else from the data set where it still lies."""
    if config.model not in registry.MODELS:
        return None
    if "input_shape" in result and "outputs" in result:
        return registry.make_spec(
            config,
            tuple(result["input_shape"]),
            result["outputs"],
            result.get("vocabulary", 0),
            result.get("per_token", False),
        )
    try:
        info, _ = read_info(root, stored_name(config.data))
    except DataError:
        return None
    shape = {"text": (config.text.window,), "sequences": (2, *info.shape)}.get(
        info.kind, info.shape
    )
    return registry.make_spec(config, shape, info.outputs, info.vocabulary, info.target == "tags")
