"""How a round's clients become jobs. Depends on the config and the cohort only."""

from __future__ import annotations

from collections.abc import Sequence

from heterofl_ray.mixes import Level


def group_clients(
    cohort: Sequence[int], levels: Sequence[Level], size: int
) -> list[tuple[Level, tuple[int, ...]]]:
    """Groups of at most ``size`` same-level clients, largest level first, in order of client."""
    members: dict[Level, list[int]] = {}
    for client, level in zip(cohort, levels, strict=True):
        members.setdefault(level, []).append(client)
    return [
        (level, tuple(clients[start : start + size]))
        for level, clients in sorted(members.items(), key=lambda item: -item[0].rate)
        for start in range(0, len(clients), size)
    ]


def ranges(total: int, size: int) -> list[tuple[int, int]]:
    """(start, stop) of consecutive parts of at most ``size``."""
    return [(start, min(start + size, total)) for start in range(0, total, size)]
