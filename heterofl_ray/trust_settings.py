"""Settings about clients that cannot be trusted, and about clients that need not trust the model.

Attacks are what some clients do in a simulation; what stands against them is ``server.norm_bound``,
``server.robust`` and ``server.bad_updates``. ``privacy.*`` bounds what a released model tells about
any one client's data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heterofl_ray.errors import ConfigError
from heterofl_ray.method_settings import ServerConfig
from heterofl_ray.settings import Checked, setting


@dataclass(frozen=True, kw_only=True)
class AttackConfig(Checked):
    """What hostile clients do, to see what stands against it."""

    group: ClassVar[str] = "attack."

    kind: str = setting(
        "none",
        "hostile clients send the opposite of their update, a multiple of it, noise or NaN, or "
        "train on their labels in reverse",
        choices=("none", "sign_flip", "scale", "noise", "nan", "label_flip"),
    )
    share: float = setting(0.2, "of the clients that are hostile; drawn once", low=0, high=1)
    scale: float = setting(
        10.0, "factor of a flipped or scaled update; the noise's standard deviation", above=0
    )


@dataclass(frozen=True, kw_only=True)
class PrivacyConfig(Checked):
    """Client-level differential privacy of the global model."""

    group: ClassVar[str] = "privacy."

    noise: float = setting(
        0.0,
        "standard deviation of the noise in an element's sum, in units of privacy.clip; 0: no "
        "privacy",
        low=0,
    )
    clip: float = setting(1.0, "longest update (L2 norm); a longer one is scaled down", above=0)
    delta: float = setting(
        1e-5, "probability that epsilon does not cover; below 1/clients", above=0, high=0.1
    )
    target_epsilon: float = setting(
        0.0, "a run whose rounds would cost more is refused; 0: any", low=0
    )

    @property
    def on(self) -> bool:
        return self.noise > 0


def check_robust(server: ServerConfig, clients_per_job: int) -> None:
    """Robust means need every client's update by itself."""
    if server.robust == "none":
        return
    if clients_per_job > 1:
        raise ConfigError.of(
            "execution.clients_per_job",
            clients_per_job,
            f"server.robust={server.robust} compares single clients, not sums; must be 1",
        )
    if server.weighting != "clients":
        raise ConfigError.of(
            "server.weighting",
            server.weighting,
            f"server.robust={server.robust} gives each client one vote; must be clients",
        )


def check_private(privacy: PrivacyConfig, server: ServerConfig, clients: int) -> None:
    """What the guarantee rests on."""
    if not privacy.on:
        if privacy.target_epsilon:
            raise ConfigError.of(
                "privacy.target_epsilon",
                privacy.target_epsilon,
                "without noise nothing is private; set privacy.noise above 0",
            )
        return
    if privacy.delta * clients >= 1:
        raise ConfigError.of(
            "privacy.delta", privacy.delta, f"must be below 1/clients = {1 / clients:g}"
        )
    for name, value, valid, why in (
        ("weighting", server.weighting, "clients", "a client's examples are its secret"),
        ("robust", server.robust, "none", "the noise is measured for a mean"),
        ("norm_bound", server.norm_bound, 0, "privacy.clip bounds updates already"),
        ("bad_updates", server.bad_updates, "reject", "that a run ends tells about a client"),
    ):
        if value != valid:
            raise ConfigError.of(
                f"server.{name}", value, f"with privacy.noise above 0 must be {valid}: {why}"
            )
