"""Every setting of an experiment, as frozen dataclasses that cannot hold a wrong value.

The settings people type are flat fields of `ExperimentConfig`; the rest sits in groups. Python,
YAML and ``--set group.name=value`` use the same names. Nothing here imports torch, so that a wrong
setting is answered at once.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from heterofl_ray.errors import ConfigError
from heterofl_ray.method_settings import (
    FedMDConfig,
    FedProxConfig,
    FjordConfig,
    InclusiveFLConfig,
    LGConfig,
    SelectionConfig,
    ServerConfig,
)
from heterofl_ray.mixes import Level, Mix, parse_mix
from heterofl_ray.participants import Participant
from heterofl_ray.setting_groups import (
    CapabilityConfig,
    CheckpointConfig,
    EvaluationConfig,
    ExecutionConfig,
    FeatureSkewConfig,
    LossConfig,
    NetworkConfig,
    OptimizerConfig,
    TextConfig,
    TrackingConfig,
)
from heterofl_ray.settings import Checked, assign, describe, setting
from heterofl_ray.trust_settings import AttackConfig, PrivacyConfig, check_private, check_robust

# What each kind of partition takes after its colon: 'classes:2', 'dirichlet:0.3'.
PARTITIONS: Mapping[str, type[int] | type[float] | None] = {
    "iid": None,
    "classes": int,
    "dirichlet": float,
    "power-law": float,
    "natural": None,
}
PARTITION_EXAMPLES = {
    "classes": "classes:2",
    "dirichlet": "dirichlet:0.3",
    "power-law": "power-law:1.5",
}


@dataclass(frozen=True, kw_only=True)
class ExperimentConfig(Checked):
    """One experiment. Two equal configs give the same bytes."""

    data: str = setting("digits", "a data set's name")
    partition: str = setting(
        "iid",
        "how examples reach clients: iid, classes:K, dirichlet:ALPHA, power-law:EXPONENT, natural",
    )
    model: str = setting("conv", "a registered model's name")
    method: str = setting("heterofl", "the federated method")
    mix: str = setting("a-e", "levels and shares: a-e, a3-e7 or 1.0:0.3,0.4:0.7")
    shrink: float = setting(0.5, "width ratio from one level to the next", above=0, high=1)
    assignment: str = setting(
        "dynamic",
        "levels drawn each round, fixed per client, or by what a client affords",
        choices=("dynamic", "fix", "capability"),
    )
    clients: int = setting(100, "population", low=1)
    fraction: float = setting(0.1, "share of clients in a round's cohort", above=0, high=1)
    rounds: int = setting(100, "communication rounds", low=1)
    seed: int = setting(0, "of all random streams", low=0, high=2**63 - 1)
    local_epochs: int = setting(5, "passes over a client's data in a round", low=1)
    batch_size: int = setting(10, "images per local step", low=1)
    lr: float = setting(0.1, "local learning rate", above=0)
    evaluate_every: int = setting(1, "rounds between tests; 0: only after the last", low=0)

    network: NetworkConfig = field(default_factory=NetworkConfig)
    text: TextConfig = field(default_factory=TextConfig)
    feature_skew: FeatureSkewConfig = field(default_factory=FeatureSkewConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    capability: CapabilityConfig = field(default_factory=CapabilityConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    execution: ExecutionConfig = field(default_factory=ExecutionConfig)
    server: ServerConfig = field(default_factory=ServerConfig)
    selection: SelectionConfig = field(default_factory=SelectionConfig)
    fedprox: FedProxConfig = field(default_factory=FedProxConfig)
    lg: LGConfig = field(default_factory=LGConfig)
    fjord: FjordConfig = field(default_factory=FjordConfig)
    inclusivefl: InclusiveFLConfig = field(default_factory=InclusiveFLConfig)
    fedmd: FedMDConfig = field(default_factory=FedMDConfig)
    attack: AttackConfig = field(default_factory=AttackConfig)
    privacy: PrivacyConfig = field(default_factory=PrivacyConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)

    @property
    def levels(self) -> Mix:
        if self.participants:
            return Mix.of_participants(self.participants)
        mix, depths = parse_mix(self.mix, self.shrink), self.inclusivefl.depths
        return mix.with_depths(depths) if depths and self.method == "inclusivefl" else mix

    @property
    def participants(self) -> tuple[Participant, ...]:
        """Those with models of their own; empty: all clients share the model."""
        return self.fedmd.models if self.method == "fedmd" else ()

    @property
    def cohort_size(self) -> int:
        """ceil(C x M), at least 1."""
        return max(1, math.ceil(self.fraction * self.clients - 1e-9))

    @property
    def partition_kind(self) -> tuple[str, int | float | None]:
        """('classes', 2) for 'classes:2'."""
        return parse_partition(self.partition)

    @property
    def update_bound(self) -> float:
        """The longest update that counts as it is (L2 norm); 0: any does."""
        return self.privacy.clip if self.privacy.on else self.server.norm_bound

    def learning_rate(self, round_number: int) -> float:
        """The rate in round 1, 2, …: it falls after as many rounds as each milestone says."""
        passed = sum(milestone < round_number for milestone in self.optimizer.milestones)
        return self.lr * self.optimizer.gamma**passed

    def _check_together(self) -> None:
        levels = [level.name for level in parse_mix(self.mix, self.shrink).levels]
        for level in self.execution.trainers:
            if level not in levels:
                raise ConfigError.unknown("level in execution.trainer", level, levels)
        depths = self.inclusivefl.depths
        if depths and self.method == "inclusivefl" and len(depths) != len(levels):
            raise ConfigError.of(
                "inclusivefl.depths", list(depths), f"mix={self.mix} needs one for each level"
            )
        parse_partition(self.partition)
        check_robust(self.server, self.execution.clients_per_job)
        check_private(self.privacy, self.server, self.clients)
        late = [m for m in self.optimizer.milestones if m >= self.rounds]
        if late:
            raise ConfigError.of(
                "optimizer.milestones",
                list(self.optimizer.milestones),
                f"{late[0]} is beyond the run; each must be below rounds={self.rounds}",
            )
        values = self.capability.values
        if values and len(values) != self.clients:
            raise ConfigError.of(
                "capability.values",
                values,
                f"{len(values)} values given; one for each of clients={self.clients} is needed",
            )

    def with_one_level(self, level: Level) -> ExperimentConfig:
        """This config with a mix of ``level`` alone."""
        mix = level.name if level.name.isalpha() else repr(level.rate)
        trainer = self.execution.trainers.get(level.name)
        execution = {} if trainer is None else {"trainer": trainer}
        return self.merge({"mix": mix, "execution": execution})

    def to_dict(self) -> dict[str, Any]:
        """Nested plain values, as YAML and JSON hold them."""
        plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return plain

    def to_yaml(self) -> str:
        import yaml

        text: str = yaml.safe_dump(self.to_dict(), sort_keys=False)
        return text

    def hash(self) -> str:
        """Names the experiment: equal whenever the settings that decide the result are.

        Settings at their defaults are left out, so that one more of them renames nothing.
        """
        usual = describe(ExperimentConfig())
        deciding = {
            name: entry["default"]
            for name, entry in describe(self).items()
            if not entry["runtime"] and entry["default"] != usual[name]["default"]
        }
        return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:16]

    def merge(self, values: Mapping[str, Any]) -> ExperimentConfig:
        """This config with nested plain values laid over it."""
        merged = self.to_dict()
        if "rounds" in values and "milestones" not in (values.get("optimizer") or {}):
            _shorten(merged, values["rounds"])
        for key, value in values.items():
            if isinstance(merged.get(key), dict) and isinstance(value, Mapping):
                merged[key] |= value
            else:
                merged[key] = value
        return ExperimentConfig.from_dict(merged)

    def override(self, assignments: Iterable[str]) -> ExperimentConfig:
        """This config with ``name=value`` or ``group.name=value`` texts applied, checked once."""
        values, given = self.to_dict(), list(assignments)
        for assignment in given:
            assign(ExperimentConfig, values, assignment)
        if not any(text.partition("=")[0].strip() == "optimizer.milestones" for text in given):
            _shorten(values, values["rounds"])
        return ExperimentConfig.from_dict(values)


def _shorten(values: dict[str, Any], rounds: Any) -> None:
    """A preset that is run for fewer rounds loses the milestones it does not come to."""
    if isinstance(rounds, int):
        kept = [m for m in values["optimizer"]["milestones"] if m < rounds]
        values["optimizer"]["milestones"] = kept


def parse_partition(text: str) -> tuple[str, int | float | None]:
    kind, _, argument = text.partition(":")
    if kind not in PARTITIONS:
        forms = [PARTITION_EXAMPLES.get(name, name) for name in PARTITIONS]
        raise ConfigError.unknown("partition", text, forms)
    number = PARTITIONS[kind]
    if number is None:
        if argument:
            raise ConfigError.of("partition", text, f"'{kind}' takes nothing after it")
        return kind, None
    try:
        value = number(argument)
    except ValueError:
        value = 0
    if not (0 < value < math.inf):
        example = PARTITION_EXAMPLES[kind]
        raise ConfigError.of("partition", text, f"needs a number above 0, such as '{example}'")
    return kind, value
