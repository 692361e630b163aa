"""Whether a point can be trained, and what its average client costs: known without training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from heterofl_ray import preflight
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.info import DataInfo
from heterofl_ray.data.places import stored
from heterofl_ray.errors import ConfigError, DataError
from heterofl_ray.models.costs import Costs, mix_costs, model_costs
from heterofl_ray.models.spec import ModelSpec
from heterofl_ray.runner import make_bench, settled
from heterofl_ray.tuning.objectives import PRICES, Limit
from heterofl_ray.tuning.plan import SweepPlan


@dataclass(frozen=True)
class Price:
    """What a point's clients cost."""

    client: Mapping[str, float]
    """Of the average client, by the names of `PRICES`."""
    large: Mapping[str, float]
    """Of a client that trains the whole model."""
    flops: Mapping[str, float] = field(default_factory=dict)
    """Of one example forward, by level."""
    passes: float = 0.0
    """Examples that a client passes forward in a round, on average."""

    def plain(self) -> dict[str, Any]:
        return asdict(self)


class Refused(Exception):
    """The point is left out; the message says why."""


class Pricing:
    """Judges points of a plan's space; models of one shape are measured once."""

    def __init__(self, plan: SweepPlan, data_root: Path) -> None:
        self._plan = plan
        self._root = data_root
        self._costs = cache(_costs)
        self._shapes: dict[Any, tuple[ModelSpec, DataInfo]] = {}
        self._needed = bool(plan.limits) or any(o.name in PRICES for o in plan.objectives)

    def config(self, settings: Mapping[str, Any]) -> ExperimentConfig:
        """The point's config, its names known and its values within their limits."""
        with _refusing():
            config = self._plan.point(settings)
            preflight.check(config, stored(self._root))
            return settled(config)

    def price(self, config: ExperimentConfig) -> Price:
        with _refusing():
            if self._needed and config.assignment == "capability":
                raise ConfigError.of(
                    "assignment", "capability", "what clients cost is not known from the mix; use "
                    "dynamic or fix, or neither constraints nor client_… objectives",
                )  # fmt: skip
            spec, info = self._shape(config)
            mix = config.levels
            by_level = [self._costs(spec.at(level), level.rate) for level in mix.levels]
        flops = {each.name: cost.flops for each, cost in zip(mix.levels, by_level, strict=True)}
        window = spec.input_shape[0] if info.kind == "text" else 1
        return Price(
            client=_figures(mix_costs(mix, by_level)),
            large=_figures(self._costs(spec, 1.0)),
            flops=flops,
            passes=info.train / config.clients / window * config.local_epochs,
        )

    def excess(self, price: Price) -> dict[Limit, float]:
        """By how much each constraint is broken; 0 or less: it is met."""
        return {limit: limit.excess(price.client, price.large) for limit in self._plan.limits}

    def check(self, config: ExperimentConfig) -> None:
        """Refuse what cannot be built or dealt; it takes longer than to price it."""
        with _refusing():
            make_bench(config, self._root)

    def _shape(self, config: ExperimentConfig) -> tuple[ModelSpec, DataInfo]:
        """The model's shape, which most points share, and what the data is."""
        key = (config.data, config.model, config.network, config.text)
        if key not in self._shapes:
            bench = make_bench(config, self._root)
            self._shapes[key] = (bench.spec, bench.data.dataset.info)
        return self._shapes[key]


@contextmanager
def _refusing() -> Iterator[None]:
    """A setting that is wrong at a point is a reason to leave the point out."""
    try:
        yield
    except ConfigError as error:
        raise Refused(str(error)) from None


def _costs(spec: ModelSpec, rate: float) -> Costs:
    try:
        return model_costs(spec, rate)
    except (RuntimeError, NotImplementedError, TypeError) as error:
        # a user's own model may not run without data
        raise DataError(f"model {spec.name!r} cannot be measured without data: {error}") from None


def _figures(costs: Costs) -> dict[str, float]:
    return {
        "client_parameters": costs.parameters,
        "client_flops": costs.flops,
        "client_megabytes": 2 * costs.space_mb,
    }
