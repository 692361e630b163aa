"""Which channels of each group a sub-model keeps.

All axes of a group keep the same channels, so residual streams stay consistent; where a group has
heads, each keeps as many. A sub-model of full width keeps all in their order, whatever the choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from heterofl_ray.mixes import Level
from heterofl_ray.models.layout import Channels, Layout
from heterofl_ray.randomness import Streams
from heterofl_ray.submodels.plan import Leading, Picked, Selection


@dataclass(frozen=True)
class Cut:
    """All that decides a sub-model: whoever has the same cut in a round has the same parameters."""

    level: Level
    selection: str = "leading"
    """A name of `SELECTIONS`."""
    round_number: int | None = None
    """None: the same in every round."""
    client: int | None = None
    """None: the same for all clients of the level."""


Places = Callable[[str, Leading], Tensor]
"""For a group and its leading channels' numbers: the chosen places in each segment, in rows."""


def leading(outer: Layout, inner: Layout) -> Mapping[str, Leading]:
    """HeteroFL's static choice: the leading channels of each group, per head where it has heads."""
    wide, narrow = _groups(outer), _groups(inner)
    return {
        group: Leading(
            wide[group].segments,
            wide[group].width // wide[group].segments,
            narrow[group].width // narrow[group].segments,
        )
        for group in wide
        if group in narrow
    }


def rolling(cut: Cut, streams: Streams) -> Places:
    """FedRolex's window: it moves on by one channel a round, and round at the end.

    From round 1, whose window is the leading one, each channel of a group of K is held equally
    often in every K rounds.
    """

    def places(group: str, size: Leading) -> Tensor:
        window = torch.arange(size.inner) + _round(cut) - 1
        return window.remainder(size.outer).expand(size.segments, -1)

    return places


def drawn(cut: Cut, streams: Streams) -> Places:
    """Uniformly drawn anew each round, for the level or for each client; in ascending order."""
    if cut.client is None:
        whose, client = f"level {cut.level.name}", 0
    else:
        whose, client = "client", cut.client

    def places(group: str, size: Leading) -> Tensor:
        # keyed by the group, so that a server with some of the tensors draws the same
        random = streams.torch(f"channels of {whose}: {group}", _round(cut), client)
        orders = torch.rand(size.segments, size.outer, generator=random).argsort(1)
        return orders[:, : size.inner].sort(1).values

    return places


SELECTIONS: Mapping[str, Callable[[Cut, Streams], Places]] = {"rolling": rolling, "random": drawn}
"""Those besides the leading channels."""


def select(cut: Cut, outer: Layout, inner: Layout, streams: Streams) -> Mapping[str, Selection]:
    """The channels of each group of ``outer`` that the sub-model laid out as ``inner`` keeps."""
    first = leading(outer, inner)
    if cut.selection == "leading":
        return first
    return dict(_picked(first, SELECTIONS[cut.selection](cut, streams)))


def _picked(first: Mapping[str, Leading], places: Places) -> Iterator[tuple[str, Selection]]:
    for group, size in first.items():
        if size.inner == size.outer:
            yield group, size
        else:
            starts = torch.arange(size.segments)[:, None] * size.outer
            yield group, Picked((starts + places(group, size)).flatten())


def _round(cut: Cut) -> int:
    if cut.round_number is None:
        raise ValueError(f"a {cut.selection} cut needs a round")
    return cut.round_number


def _groups(layout: Layout) -> dict[str, Channels]:
    """Each channel group once."""
    return {
        axis.group: axis for axes in layout.values() for axis in axes if isinstance(axis, Channels)
    }
