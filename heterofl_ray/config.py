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
from typing import Any, ClassVar

from heterofl_ray.errors import ConfigError
from heterofl_ray.mixes import Mix, parse_mix
from heterofl_ray.settings import Checked, assign, setting

# What each kind of partition takes after its colon: 'classes:2', 'dirichlet:0.3'.
PARTITIONS: Mapping[str, type[int] | type[float] | None] = {
    "iid": None,
    "classes": int,
    "dirichlet": float,
}


@dataclass(frozen=True, kw_only=True)
class NetworkConfig(Checked):
    """The shape of the global model at rate 1."""

    group: ClassVar[str] = "network."

    norm: str = setting(
        "auto",
        "normalisation: static batch, instance, group (4), layer, or none; auto: the model's own",
        choices=("auto", "sbn", "in", "gn", "ln", "none"),
    )
    scaler: bool = setting(True, "divide hidden activations by the relative width in training")
    hidden: tuple[int, ...] = setting((), "widths of conv, preresnet or mlp; empty: its own", low=1)
    embedding: int = setting(256, "transformer: width of the residual stream", low=1)
    heads: int = setting(8, "transformer: attention heads; every sub-model keeps all", low=1)
    feedforward: int = setting(512, "transformer: width of the feed-forward layers", low=1)
    layers: int = setting(4, "transformer: encoder layers", low=1)
    dropout: float = setting(0.2, "transformer: dropout probability", low=0, high=0.99)

    def _check_together(self) -> None:
        if self.embedding % self.heads:
            raise ConfigError.of(
                "network.embedding", self.embedding, f"must be a multiple of heads={self.heads}"
            )


@dataclass(frozen=True, kw_only=True)
class TextConfig(Checked):
    """How a token stream becomes training steps."""

    group: ClassVar[str] = "text."

    rows: int = setting(100, "equal rows the training stream is cut into and dealt as", low=1)
    window: int = setting(64, "tokens per row in a step", low=1)
    mask_rate: float = setting(0.15, "share of positions hidden from the model", low=0, high=1)


@dataclass(frozen=True, kw_only=True)
class LossConfig(Checked):
    """The local loss."""

    group: ClassVar[str] = "loss."

    masked: str = setting(
        "auto",
        "logits of labels the client does not hold become 0; auto: all but IID images",
        choices=("auto", "on", "off"),
    )
    sliced_vocabulary: bool = setting(
        True, "text: train only the client's own words' rows (same result, less work)"
    )


@dataclass(frozen=True, kw_only=True)
class CapabilityConfig(Checked):
    """assignment=capability: the relative width each client affords."""

    group: ClassVar[str] = "capability."

    values: tuple[float, ...] = setting((), "one per client; empty: drawn", above=0)
    low: float = setting(0.05, "smallest drawn capability", above=0)
    high: float = setting(1.0, "largest drawn capability", above=0)
    drift: float = setting(0.0, "spread of a round's log-normal change of capability", low=0)

    def _check_together(self) -> None:
        if self.low > self.high:
            raise ConfigError.of("capability.low", self.low, f"must be at most high={self.high}")


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig(Checked):
    """The clients' optimiser, made anew for each client and round."""

    group: ClassVar[str] = "optimizer."

    name: str = setting(
        "sgd", "local optimiser", choices=("sgd", "adam", "adamw", "rmsprop", "adagrad")
    )
    momentum: float = setting(0.9, "sgd and rmsprop", low=0, high=0.9999)
    weight_decay: float = setting(5e-4, "L2 penalty", low=0)
    clip_norm: float = setting(1.0, "largest global gradient norm; 0: no clipping", low=0)
    milestones: tuple[int, ...] = setting((), "rounds after which the rate falls", low=1)
    gamma: float = setting(0.1, "factor of the learning rate at a milestone", above=0, high=1)

    def _check_together(self) -> None:
        if list(self.milestones) != sorted(set(self.milestones)):
            raise ConfigError.of("optimizer.milestones", self.milestones, "must increase")


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig(Checked):
    """Tests of the global model and of every level's sub-model."""

    group: ClassVar[str] = "evaluation."

    batch_size: int = setting(500, "examples per test batch", low=1)
    calibration_batch_size: int = setting(
        500, "examples per batch of the static batch norm's statistics", low=2
    )
    levels: str = setting(
        "final",
        "when every level's sub-model is tested too",
        choices=("final", "always", "never"),
    )


@dataclass(frozen=True, kw_only=True)
class ExecutionConfig(Checked):
    """Where and how the work runs."""

    group: ClassVar[str] = "execution."

    backend: str = setting("local", "local: in this process", choices=("local",))
    device: str = setting("auto", "auto, cpu, cuda or cuda:N; auto: cuda where there is one")
    threads: int = setting(1, "torch threads; part of the result's bytes", low=1, high=1024)
    clients_per_job: int = setting(1, "same-level clients trained and summed together", low=1)

    def _check_together(self) -> None:
        kind, _, index = self.device.partition(":")
        plain = self.device in ("auto", "cpu", "cuda")
        if not (plain or (kind == "cuda" and index.isascii() and index.isdigit())):
            raise ConfigError.of("execution.device", self.device, "auto, cpu, cuda or cuda:N")


@dataclass(frozen=True, kw_only=True)
class ServerConfig(Checked):
    """How updates become the next global model."""

    group: ClassVar[str] = "server."

    weighting: str = setting(
        "clients", "each client weighs 1, or its examples", choices=("clients", "examples")
    )
    accumulate: str = setting("float32", "precision of the sums", choices=("float32", "float64"))


@dataclass(frozen=True, kw_only=True)
class TrackingConfig(Checked):
    """What is kept of a run; not part of the config's hash."""

    group: ClassVar[str] = "tracking."

    root: str = setting("runs", "folder in which each run gets a folder of its own")


@dataclass(frozen=True, kw_only=True)
class ExperimentConfig(Checked):
    """One experiment. Two equal configs give the same bytes."""

    data: str = setting("digits", "a data set's name")
    partition: str = setting("iid", "how examples reach clients: iid, classes:K, dirichlet:ALPHA")
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
    loss: LossConfig = field(default_factory=LossConfig)
    capability: CapabilityConfig = field(default_factory=CapabilityConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    execution: ExecutionConfig = field(default_factory=ExecutionConfig)
    server: ServerConfig = field(default_factory=ServerConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)

    @property
    def levels(self) -> Mix:
        return parse_mix(self.mix, self.shrink)

    @property
    def cohort_size(self) -> int:
        """ceil(C x M), at least 1."""
        return max(1, math.ceil(self.fraction * self.clients - 1e-9))

    @property
    def partition_kind(self) -> tuple[str, int | float | None]:
        """('classes', 2) for 'classes:2'."""
        return parse_partition(self.partition)

    def learning_rate(self, round_number: int) -> float:
        """The rate in round 1, 2, …: it falls after as many rounds as each milestone says."""
        passed = sum(milestone < round_number for milestone in self.optimizer.milestones)
        return self.lr * self.optimizer.gamma**passed

    def _check_together(self) -> None:
        parse_mix(self.mix, self.shrink)
        parse_partition(self.partition)
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

    def to_dict(self) -> dict[str, Any]:
        """Nested plain values, as YAML and JSON hold them."""
        plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return plain

    def to_yaml(self) -> str:
        import yaml

        text: str = yaml.safe_dump(self.to_dict(), sort_keys=False)
        return text

    def hash(self) -> str:
        """Names the experiment: equal for equal settings, wherever the run is written."""
        values = self.to_dict()
        del values["tracking"]
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]

    def merge(self, values: Mapping[str, Any]) -> ExperimentConfig:
        """This config with nested plain values laid over it."""
        merged = self.to_dict()
        for key, value in values.items():
            if isinstance(merged.get(key), dict) and isinstance(value, Mapping):
                merged[key] |= value
            else:
                merged[key] = value
        return ExperimentConfig.from_dict(merged)

    def override(self, assignments: Iterable[str]) -> ExperimentConfig:
        """This config with ``name=value`` or ``group.name=value`` texts applied, checked once."""
        values = self.to_dict()
        for assignment in assignments:
            assign(ExperimentConfig, values, assignment)
        return ExperimentConfig.from_dict(values)


def parse_partition(text: str) -> tuple[str, int | float | None]:
    kind, _, argument = text.partition(":")
    if kind not in PARTITIONS:
        raise ConfigError.unknown("partition", text, PARTITIONS)
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
        example = {"classes": "classes:2", "dirichlet": "dirichlet:0.3"}[kind]
        raise ConfigError.of("partition", text, f"needs a number above 0, such as '{example}'")
    return kind, value
