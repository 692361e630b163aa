"""What a run's rounds tell about any one client: (epsilon, delta), from dp-accounting.

Two populations are neighbours when one client's data is exchanged for any other data (how many
clients there are, and the level of each, are no secret). A round's released sums then differ by at
most 2C in length, C being ``privacy.clip``, and have noise of z x C in every element: Gaussian
noise of z/2 in units of the difference.

A cohort is a fixed number of clients drawn without replacement, which the accountant knows as such
(Y.-X. Wang, B. Balle, S. Kasiviswanathan, "Subsampled Rényi Differential Privacy and Analytical
Moments Accountant", AISTATS 2019). A new model shows how many clients of each level took part. That
tells nothing about who they were where levels are drawn anew for each cohort. Where clients have
levels of their own, the cohort is a sample of each level's clients, and the level of which the
largest share takes part is what a round costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.randomness import Streams
from heterofl_ray.submodels.levels import assign_levels, sample_cohort

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Divergences = NDArray[np.float64]

SENSITIVITY = 2
"""How far exchanging a client's data moves a sum, in units of the longest update."""


class Accountant:
    """Adds up what rounds cost. It needs the config alone: cohorts are keyed by round.

    ``own_levels``: clients have one level for the whole run, whatever ``assignment`` says.
    """

    def __init__(self, config: ExperimentConfig, own_levels: bool = False) -> None:
        self._config = config
        self._streams = Streams(config.seed)
        self._own_levels = own_levels
        self._spent: list[Divergences] = []
        """After each round, by order of the Rényi divergence."""
        self._levels: tuple[int, list[str]] | None = None

    def epsilon(self, rounds: int) -> float:
        """What rounds 1 to ``rounds`` cost together."""
        from dp_accounting import rdp

        while len(self._spent) < rounds:
            cost = divergences(self._config.privacy.noise, *self.drawn(len(self._spent) + 1))
            self._spent.append(self._spent[-1] + cost if self._spent else cost)
        orders = rdp.RdpAccountant().orders
        found, _ = rdp.compute_epsilon(orders, self._spent[rounds - 1], self._config.privacy.delta)
        return float(found)

    def drawn(self, round_number: int) -> tuple[int, int]:
        """Out of how many clients round t draws how many, of the level with the largest share."""
        config = self._config
        if config.assignment == "dynamic" and not self._own_levels:
            return config.clients, config.cohort_size
        levels = self._everyones_levels(round_number)
        chosen = [levels[c] for c in sample_cohort(config, self._streams, round_number)]
        pairs = [(levels.count(level), chosen.count(level)) for level in set(chosen)]
        return max(pairs, key=lambda pair: (pair[1] / pair[0], pair))

    def _everyones_levels(self, round_number: int) -> Sequence[str]:
        """Kept from round to round where they cannot change."""
        config = self._config
        changing = config.capability.drift and not self._own_levels
        when = round_number if changing else 0
        if self._levels is None or self._levels[0] != when:
            found = assign_levels(config, self._streams, when, range(config.clients))
            self._levels = when, [level.name for level in found]
        return self._levels[1]


@cache
def divergences(noise: float, population: int, cohort: int) -> Divergences:
    """A round's Rényi divergences at the library's orders.

    Drawing a sample never costs more than having everyone, which the bound for samples does not
    know of large ones.
    """
    import dp_accounting
    import numpy as np
    from dp_accounting import rdp

    gaussian = dp_accounting.GaussianDpEvent(noise / SENSITIVITY)
    sampled = dp_accounting.SampledWithoutReplacementDpEvent(population, cohort, gaussian)
    exchange = dp_accounting.NeighboringRelation.REPLACE_ONE
    of_sample, of_all = (
        rdp.RdpAccountant(neighboring_relation=exchange).compose(event).rdp
        for event in (sampled, gaussian)
    )
    least: Divergences = np.minimum(of_sample, of_all)
    return least


def check_target(config: ExperimentConfig, own_levels: bool) -> None:
    """Refuse a run whose rounds would cost more than ``privacy.target_epsilon``."""
    target, rounds = config.privacy.target_epsilon, config.rounds
    if not target:
        return
    accountant = Accountant(config, own_levels)
    cost = accountant.epsilon(rounds)
    if cost > target:
        within = [t for t in range(1, rounds) if accountant.epsilon(t) <= target]
        affordable = f"the first {within[-1]} are within it" if within else "one is too many"
        raise ConfigError.of(
            "privacy.target_epsilon",
            target,
            f"rounds={rounds} cost {cost:.3g}, {affordable}; set fewer rounds or more "
            "privacy.noise",
        )
