"""Level mixes: which widths the clients train, and in which shares.

A mix is written ``a-e`` (equal shares), ``a3-e7`` (30 % and 70 %) or with explicit rates,
``1.0:0.3,0.4:0.7``. Level a has rate 1, b the shrink ratio r, c has r squared, and so on. The
largest level that anybody trains is the global model.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass

from heterofl_ray.errors import ConfigError
from heterofl_ray.participants import Participant

_GRAMMAR = "write levels like 'a-e' or 'a3-e7', or rates and shares like '1.0:0.3,0.4:0.7'"
_LETTER = re.compile(r"([a-z])(-?\d+(?:\.\d+)?)?")
_NUMBER = r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RATE = re.compile(rf"({_NUMBER})(?::({_NUMBER}))?")


@dataclass(frozen=True)
class Level:
    """One size at which clients train: a name to show and the fraction of channels kept."""

    name: str
    rate: float
    depth: int = 0
    """Bottom blocks kept; 0: all."""
    participant: Participant | None = None
    """Whose own model it is; None: the experiment's model at that size."""

    def size_in(self, largest: Level) -> float:
        """How much of the largest level's width, or depth, it has."""
        return self.depth / largest.depth if self.depth else self.rate / largest.rate


@dataclass(frozen=True)
class Mix:
    """Levels from the largest to the smallest, with shares that sum to one."""

    levels: tuple[Level, ...]
    shares: tuple[float, ...]

    @property
    def largest(self) -> Level:
        """The level whose width the global model has."""
        return self.levels[0]

    @property
    def name(self) -> str:
        return "-".join(level.name for level in self.levels)

    def with_depths(self, depths: Sequence[int]) -> Mix:
        """The same levels with as many bottom blocks each, all as wide as the largest."""
        rate = self.largest.rate
        levels = zip(self.levels, depths, strict=True)
        return Mix(tuple(Level(level.name, rate, depth) for level, depth in levels), self.shares)

    @classmethod
    def of_participants(cls, participants: Sequence[Participant]) -> Mix:
        """A level of its own for each: p0, p1, …"""
        levels = (Level(f"p{n}", 1.0, participant=own) for n, own in enumerate(participants))
        return cls(tuple(levels), (1 / len(participants),) * len(participants))

    def __getitem__(self, name: str) -> Level:
        for level in self.levels:
            if level.name == name:
                return level
        raise KeyError(name)


def parse_mix(text: str, shrink: float) -> Mix:
    """The mix that ``text`` writes, at shrink ratio ``shrink``. Levels of share 0 are dropped."""
    if not 0 < shrink <= 1:
        raise ConfigError.of("shrink", shrink, "a ratio above 0 and up to 1")
    entries = _rates(text) if text[:1].isdigit() or text[:1] in "-." else _letters(text, shrink)
    names = [level.name for level, _ in entries]
    if len(set(names)) != len(names):
        raise ConfigError.of("mix", text, "each level may be named once")
    if any(share < 0 or not math.isfinite(share) for _, share in entries):
        raise ConfigError.of("mix", text, "shares must be 0 or more")
    total = sum(share for _, share in entries)
    if total <= 0:
        raise ConfigError.of("mix", text, "at least one level needs a share above 0")
    held = sorted((entry for entry in entries if entry[1] > 0), key=lambda entry: -entry[0].rate)
    return Mix(
        levels=tuple(level for level, _ in held),
        shares=tuple(share / total for _, share in held),
    )


def _letters(text: str, shrink: float) -> list[tuple[Level, float]]:
    entries = []
    for part in re.split(r"-(?=[a-z])", text):
        match = _LETTER.fullmatch(part)
        if match is None:
            raise ConfigError.of("mix", text, _GRAMMAR)
        letter, share = match.groups()
        rate = shrink ** string.ascii_lowercase.index(letter)
        entries.append((Level(letter, rate), float(share) if share else 1.0))
    return entries


def _rates(text: str) -> list[tuple[Level, float]]:
    entries = []
    for part in text.split(","):
        match = _RATE.fullmatch(part.strip())
        if match is None:
            raise ConfigError.of("mix", text, _GRAMMAR)
        rate = float(match[1])
        if not 0 < rate <= 1:
            raise ConfigError.of("mix", text, f"rate {rate} must be above 0 and up to 1")
        entries.append((Level(f"{rate:g}", rate), float(match[2]) if match[2] else 1.0))
    return entries
