"""Shares of a mix as a point on the simplex: 0 or more each, one in all.

A point is drawn by breaking a stick: position i says where what is left is broken. The positions
are quantiles, so that uniform ones give mixes that are uniform over the simplex, and a sampler's
search space is a plain cube.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def shares_of(positions: Sequence[float]) -> list[float]:
    """The shares of one level more than there are positions."""
    shares, left = [], 1.0
    for index, position in enumerate(positions):
        share = left * (1 - (1 - position) ** (1 / (len(positions) - index)))
        shares.append(share)
        left -= share
    return [*shares, max(left, 0.0)]


def positions_of(shares: Sequence[float]) -> list[float]:
    """The positions that give these shares; behind the last of the stick they are 0."""
    positions, left = [], 1.0
    for index, share in enumerate(shares[:-1]):
        broken = min(share / left, 1.0) if left > 1e-12 else 0.0
        positions.append(1 - (1 - broken) ** (len(shares) - 1 - index))
        left -= share
    return positions


def parts_of(shares: Sequence[float], drop: float, total: int) -> list[int]:
    """Whole parts of ``total``, nearest to the shares; those below ``drop`` become 0.

    Rounding goes by largest remainders, so that the parts add up.
    """
    kept = [share if share >= drop - 1e-9 else 0.0 for share in shares]
    if not any(kept):
        kept = [share if share == max(shares) else 0.0 for share in shares]
    exact = [share / sum(kept) * total for share in kept]
    parts = [int(value) for value in exact]
    by_remainder = sorted(range(len(exact)), key=lambda place: parts[place] - exact[place])
    for place in by_remainder[: total - sum(parts)]:
        parts[place] += 1
    return parts


def every_parts(levels: int, total: int, drop: float) -> Iterator[list[int]]:
    """Each way to give ``levels`` levels parts of ``total`` that are 0 or no small share."""
    for parts in _compositions(levels, total):
        if all(part == 0 or part >= drop * total - 1e-9 for part in parts):
            yield parts


def _compositions(levels: int, total: int) -> Iterator[list[int]]:
    if levels == 1:
        yield [total]
        return
    for first in range(total, -1, -1):
        for rest in _compositions(levels - 1, total - first):
            yield [first, *rest]


def mix_text(names: Sequence[str], parts: Sequence[int]) -> str:
    """'a31-e69' for levels a and e, '1.0:31,0.4:69' for rates; without levels of 0.

    Equal parts need no numbers, so that a mix has one text.
    """
    held = {name: part for name, part in zip(names, parts, strict=True) if part}
    equal = len(set(held.values())) == 1
    letters = names[0].isalpha()
    between = "" if letters else ":"
    texts = [name if equal else f"{name}{between}{part}" for name, part in held.items()]
    return ("-" if letters else ",").join(texts)
