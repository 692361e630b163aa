"""Sub-models that differ in depth: the bottom blocks of one model, each depth with its own top.

The top of a depth is its last block and its head: tensors of its own, kept beside the global
model's under ``depthN/NAME``. Everything below is the global model's, and so is the deepest one's
top.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor

from heterofl_ray.models.layout import Place


def own_name(name: str, depth: int) -> str:
    """What a tensor of the top of a depth is kept under."""
    return f"depth{depth}/{name}"


def of_depth(
    parameters: Mapping[str, Tensor], names: Iterable[str], depth: int
) -> dict[str, Tensor]:
    """The sub-model of a depth with these tensors: its own where it has some, else the shared."""

    def found(name: str) -> Tensor:
        own = own_name(name, depth)
        return parameters[own if own in parameters else name]

    return {name: found(name) for name in names}


def is_top(place: Place | None, depth: int) -> bool:
    """Whether a parameter at this place belongs to the top of a depth."""
    return place is None or place.block == depth


def spread_depths(blocks: int, levels: int) -> tuple[int, ...]:
    """Depths of so many levels, the largest first: in equal steps, 12-8-4 of 12 for three."""
    return tuple(-(-blocks * (levels - place) // levels) for place in range(levels))
