"""The groups of settings that belong to methods: what the server does, and what some of them need.

`config.ExperimentConfig` holds one of each. A setting here is typed as ``group.name``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heterofl_ray.errors import ConfigError
from heterofl_ray.participants import Participant, parse_participant
from heterofl_ray.setting_groups import check_device
from heterofl_ray.settings import Checked, setting


@dataclass(frozen=True, kw_only=True)
class ServerConfig(Checked):
    """How updates become the next global model."""

    group: ClassVar[str] = "server."

    weighting: str = setting(
        "clients", "each client weighs 1, or its examples", choices=("clients", "examples")
    )
    accumulate: str = setting("float32", "precision of the sums", choices=("float32", "float64"))
    device: str = setting("auto", "where the global model is kept: auto, cpu, cuda or cuda:N")
    shards: int = setting(
        1, "actors the global model's tensors are spread over", low=1, runtime=True
    )
    bad_updates: str = setting(
        "reject",
        "an update that is not finite is left out, or ends the run",
        choices=("reject", "fail"),
    )
    norm_bound: float = setting(
        0.0, "longest update (L2 norm of what a client changed); longer are scaled down; 0: any",
        low=0,
    )  # fmt: skip
    robust: str = setting(
        "none",
        "an element becomes its clients' mean, or what a few hostile ones cannot move: their "
        "median, or their mean without both ends",
        choices=("none", "median", "trimmed"),
    )
    trim: float = setting(
        0.2, "server.robust=trimmed: share of an element's clients left out at each end",
        low=0, high=0.49,
    )  # fmt: skip
    optimizer: str = setting(
        "none",
        "the mean is the next model, or a direction that FedAvgM, FedAdam or FedYogi goes in",
        choices=("none", "avgm", "adam", "yogi"),
    )
    lr: float = setting(0.0, "of server.optimizer; 0: 1 for avgm, 0.01 for adam and yogi", low=0)
    beta1: float = setting(0.9, "server.optimizer: decay of the momentum", low=0, high=0.9999)
    beta2: float = setting(
        0.99, "server.optimizer=adam or yogi: decay of the squares", low=0, high=0.999999
    )
    tau: float = setting(
        1e-3, "server.optimizer=adam or yogi: what is added to the root of the squares", above=0
    )

    @property
    def learning_rate(self) -> float:
        return self.lr or (1.0 if self.optimizer == "avgm" else 0.01)

    def _check_together(self) -> None:
        check_device("server.device", self.device)


@dataclass(frozen=True, kw_only=True)
class FedProxConfig(Checked):
    """method=fedprox."""

    group: ClassVar[str] = "fedprox."

    mu: float = setting(0.01, "weight of the pull towards the model that a round began with", low=0)


@dataclass(frozen=True, kw_only=True)
class LGConfig(Checked):
    """method=lg-fedavg: which layers stay with a client."""

    group: ClassVar[str] = "lg."

    private: str = setting(
        "representation",
        "layers that stay with a client: all below the head, or the head",
        choices=("representation", "head"),
    )
    head: int = setting(1, "last layers that make up the head", low=1)
    warmup: int = setting(0, "first rounds in which all layers are averaged, as FedAvg does", low=0)
    start: str = setting(
        "",
        "a finished run's folder, or its model.safetensors, whose model it begins from; empty: new",
        runtime=True,
    )
    start_sha256: str = setting(
        "", "the model_sha256 that the model of lg.start must have; empty: what it has"
    )

    def _check_together(self) -> None:
        if self.start_sha256 and not self.start:
            raise ConfigError.of("lg.start_sha256", self.start_sha256, "lg.start names no model")


@dataclass(frozen=True, kw_only=True)
class SelectionConfig(Checked):
    """method=random: whose channels are drawn together."""

    group: ClassVar[str] = "selection."

    drawn_for: str = setting(
        "client",
        "method=random draws channels for each client, or for all clients of a level",
        choices=("client", "level"),
    )


@dataclass(frozen=True, kw_only=True)
class FjordConfig(Checked):
    """method=fjord."""

    group: ClassVar[str] = "fjord."

    distillation: float = setting(
        0.0, "share of a narrow step's loss that asks for the client's full width's answers",
        low=0, high=1,
    )  # fmt: skip
    temperature: float = setting(1.0, "of the answers in distillation", above=0)


@dataclass(frozen=True, kw_only=True)
class InclusiveFLConfig(Checked):
    """method=inclusivefl."""

    group: ClassVar[str] = "inclusivefl."

    beta: float = setting(
        0.2, "share of the larger type's momentum in a top block's gradient; 0: none",
        low=0, high=1,
    )  # fmt: skip
    depths: tuple[int, ...] = setting(
        (), "blocks of each level, the largest level first; empty: in equal steps", low=1
    )

    def _check_together(self) -> None:
        if list(self.depths) != sorted(self.depths, reverse=True):
            raise ConfigError.of("inclusivefl.depths", list(self.depths), "must not increase")


@dataclass(frozen=True, kw_only=True)
class FedMDConfig(Checked):
    """method=fedmd. Its lr, fraction and revisit_* stand in for the settings of all methods."""

    group: ClassVar[str] = "fedmd."

    participants: tuple[str, ...] = setting(
        (
            "party:8-16:.2",
            "party:16-16:.2",
            "party:8-8-16:.2",
            "party:12-24:.3",
            "party:16-32:.3",
        ),
        "each one's own model, as MODEL, MODEL:WIDTH-WIDTH or MODEL:WIDTH-WIDTH:DROPOUT",
    )
    public: str = setting(
        "",
        "the data set that everybody has; empty: the classes of data that are not private. The "
        "name of data itself: all its classes, but for examples that somebody has in private",
    )
    classes: tuple[int, ...] = setting(
        (), "numbers of the private classes of data; empty: all, or its last half if public is "
        "empty", low=0,
    )  # fmt: skip
    private_per_class: int = setting(
        3, "private examples of each class that a participant has at most; 0: all of its share",
        low=0,
    )  # fmt: skip
    public_size: int = setting(5000, "public examples drawn in a round, or all if fewer", low=1)
    weights: tuple[float, ...] = setting(
        (), "each participant's weight in the consensus; empty: all alike", low=0
    )
    fraction: float = setting(
        1.0, "share of participants that communicate and digest in a round", above=0, high=1
    )
    lr: float = setting(0.001, "Adam's, in all training", above=0)
    pretrain_epochs: int = setting(20, "most passes over the public examples at first", low=0)
    pretrain_batch: int = setting(128, "public examples per step at first", low=1)
    patience: int = setting(
        3, "passes without a better loss on a tenth of the public examples, held out, after which "
        "pre-training ends with the best; 0: all passes, on all examples", low=0,
    )  # fmt: skip
    private_epochs: int = setting(
        100, "passes over the private examples after that, before the first round", low=0
    )
    digest: str = setting(
        "mae",
        "how a model's scores are led to the consensus: absolute or squared differences, or the "
        "divergence of softmax(scores / fedmd.temperature)",
        choices=("mae", "mse", "kl"),
    )
    temperature: float = setting(1.0, "fedmd.digest=kl: of both answers", above=0)
    digest_epochs: int = setting(1, "passes over a round's public examples", low=1)
    digest_batch: int = setting(256, "public examples per step of a round", low=1)
    revisit_epochs: int = setting(4, "passes over the private examples in a round", low=1)
    revisit_batch: int = setting(5, "private examples per step", low=1)
    pooled: bool = setting(
        True, "also train each model on everybody's private examples, as a bound to compare with"
    )

    @property
    def models(self) -> tuple[Participant, ...]:
        return tuple(parse_participant("fedmd.participants", one) for one in self.participants)

    def _check_together(self) -> None:
        count, weights = len(self.models), self.weights
        if not count:
            raise ConfigError.of("fedmd.participants", [], "must name at least one")
        if weights and len(weights) != count:
            raise ConfigError.of(
                "fedmd.weights", list(weights), f"one for each of {count} participants is needed"
            )
        if weights and not any(weights):
            raise ConfigError.of("fedmd.weights", list(weights), "one must be above 0")
        if len(set(self.classes)) != len(self.classes):
            raise ConfigError.of("fedmd.classes", list(self.classes), "must name each class once")
