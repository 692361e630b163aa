"""The groups of settings that belong to methods: what the server does, and what some of them need.

`config.ExperimentConfig` holds one of each. A setting here is typed as ``group.name``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heterofl_ray.errors import ConfigError
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
