"""The settings of a sweep itself: ``sweep.*``, in the same file as the experiment's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heterofl_ray.errors import ConfigError
from heterofl_ray.settings import Checked, setting

SAMPLERS = ("tpe", "nsga2", "gp", "random", "grid")


@dataclass(frozen=True, kw_only=True)
class SweepSettings(Checked):
    """What is searched for, and how."""

    group: ClassVar[str] = "sweep."

    objectives: tuple[str, ...] = setting(
        ("score", "client_parameters"), "what is made better; several give a front"
    )
    sampler: str = setting("tpe", "Optuna's sampler", choices=SAMPLERS)
    trials: int = setting(20, "points to train", low=1, high=100_000, runtime=True)
    seeds: int = setting(1, "runs of each point, with seeds of their own; means count", low=1)
    stopping: str = setting(
        "none",
        "end trials early that fall behind in the score",
        choices=("none", "asha", "median"),
    )
    grace: int = setting(1, "rounds before a trial may be ended early", low=1)
    seed: int = setting(0, "of the sampler", low=0, high=2**31)
    concurrent: int = setting(0, "trials at once; 0: as many as there is room", low=0, runtime=True)
    storage: str = setting(
        "", "of Optuna, a database's URL; empty: optuna.db in the sweep's folder", runtime=True
    )
    spread: bool = setting(
        False,
        "run trials on any node; tracking.root and the data must be there",
        runtime=True,
    )
    device_gflops: float = setting(
        1.0, "speed of a client's device, for simulated_seconds", above=0
    )
    device_megabits: float = setting(
        10.0, "a client's bandwidth each way, a second, for simulated_seconds", above=0
    )

    def _check_together(self) -> None:
        if not self.objectives:
            raise ConfigError.of("sweep.objectives", [], "name one or more")
        if len(set(self.objectives)) != len(self.objectives):
            raise ConfigError.of(
                "sweep.objectives", list(self.objectives), "each may be named once"
            )
