"""Who takes part in a round, and at which level."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.mixes import Level, Mix
from heterofl_ray.randomness import Streams


def sample_cohort(config: ExperimentConfig, streams: Streams, round_number: int) -> list[int]:
    """ceil(C x M) clients without replacement, in ascending order."""
    drawn = streams.numpy("cohort", round_number).choice(
        config.clients, config.cohort_size, replace=False, shuffle=False
    )
    return sorted(int(client) for client in drawn)


def assign_levels(
    config: ExperimentConfig, streams: Streams, round_number: int, clients: Sequence[int]
) -> list[Level]:
    """The level of each of ``clients`` in this round; no draw depends on who else takes part."""
    mix = config.levels
    match config.assignment:
        case "fix":
            return [fixed_level(mix, client, config.clients) for client in clients]
        case "dynamic":
            return [_drawn_level(mix, streams, round_number, client) for client in clients]
        case _:
            return [
                affordable_level(mix, capability(config, streams, round_number, client))
                for client in clients
            ]


def fixed_level(mix: Mix, client: int, population: int) -> Level:
    """Shares laid out in order over client ids, whatever is left over going to the last level."""
    end = 0
    for level, share in zip(mix.levels, mix.shares, strict=True):
        end += int(share * population + 1e-9)
        if client < end:
            return level
    return mix.levels[-1]


def affordable_level(mix: Mix, capability: float) -> Level:
    """The largest level whose size relative to the global model is within the capability.

    A client that affords none trains the smallest.
    """
    for level in mix.levels:
        if level.size_in(mix.largest) <= capability + 1e-9:
            return level
    return mix.levels[-1]


def capability(config: ExperimentConfig, streams: Streams, round_number: int, client: int) -> float:
    """What a client affords in this round: its own value, changed by the round's drift."""
    settings = config.capability
    if settings.values:
        value = settings.values[client]
    else:
        value = streams.numpy("capability", client=client).uniform(settings.low, settings.high)
    if settings.drift:
        change = streams.numpy("capability-drift", round_number, client).standard_normal()
        value *= np.exp(settings.drift * change)
    return float(value)


def _drawn_level(mix: Mix, streams: Streams, round_number: int, client: int) -> Level:
    point = streams.numpy("level", round_number, client).random()
    place = int(np.searchsorted(np.cumsum(mix.shares), point, side="right"))
    return mix.levels[min(place, len(mix.levels) - 1)]
