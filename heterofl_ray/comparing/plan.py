"""What a comparison consists of: methods, seeds, and a config for each pair of them.

Nothing here imports torch, so mistakes are answered at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.methods.registry import METHODS

ALIASES = {"fedavg-small": "allsmall", "fedavg-large": "alllarge"}
"""Names that are better known than those of the setting ``method``."""
USUAL = (
    "heterofl",
    "fedrolex",
    "random",
    "fedavg-small",
    "fedavg-large",
    "dropweak",
    "standalone",
    "lg-fedavg",
)
MATCHED = {
    "parameters": ("fedavg", "standalone"),
    "flops": ("fedavg", "standalone"),
    "bytes": ("fedavg",),
}
"""By cost, the one-size methods that may have any width: alllarge and allsmall are bounds and keep
theirs, and standalone moves nothing at any."""


@dataclass(frozen=True)
class ComparisonPlan:
    """Every one of ``methods`` with every one of ``seeds``, all else as in ``base``."""

    base: ExperimentConfig
    methods: tuple[str, ...]
    """As they are shown."""
    seeds: tuple[int, ...]
    match: str | None = None
    """The cost in which one-size methods come as near as possible to the mix's average client."""

    @classmethod
    def of(
        cls, base: ExperimentConfig, methods: str | None, seeds: int, match: str | None = None
    ) -> ComparisonPlan:
        """As it is typed; ``methods`` are names with commas between."""
        if seeds < 1:
            raise ConfigError.of("--seeds", seeds, "must be 1 or more")
        if match is not None and match not in MATCHED:
            raise ConfigError.unknown("--match", match, MATCHED)
        names = list(USUAL) if methods is None else methods.split(",")
        known = [*METHODS, *ALIASES]
        for name in names:
            if name not in known:
                raise ConfigError.unknown("--methods", name, known)
        if len({ALIASES.get(name, name) for name in names}) < len(names):
            raise ConfigError.of("--methods", methods, "names a method twice")
        if match is not None and methods is None:
            names.append("fedavg")  # the one that any cost can match
        first = base.seed
        plan = cls(base, tuple(names), tuple(range(first, first + seeds)), match)
        if match is not None and not plan.matched:
            able = " or ".join(MATCHED[match])
            raise ConfigError.of("--match", match, f"can only change {able}; name one in --methods")
        return plan

    @property
    def matched(self) -> tuple[str, ...]:
        """The methods that get a width by its cost."""
        able = MATCHED[self.match] if self.match else ()
        return tuple(method for method in self.methods if method in able)

    @property
    def folder(self) -> Path:
        """Of the same base, the same: more seeds or methods are added to what is there."""
        root = Path(self.base.tracking.root).expanduser()
        return root / f"compare-{self.base.data.replace(':', '-')}-{self.base.hash()[:8]}"

    def config(self, method: str, seed: int) -> ExperimentConfig:
        place = self.folder / "runs" / method
        return self.base.override(
            [
                f"method={ALIASES.get(method, method)}",
                f"seed={seed}",
                f"tracking.root={place}",
            ]
        )
