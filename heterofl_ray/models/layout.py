"""Which axis of which parameter belongs to which channel group.

A model is cut along channel groups: every axis that reads or writes the same channels carries the
same group, so a residual stream or the heads of an attention layer stay consistent by construction.
Cutting, adding up and counting work on these tags alone; nothing looks at a parameter's name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from torch import nn

from heterofl_ray.errors import ConfigError


@dataclass(frozen=True)
class Channels:
    """An axis of hidden channels, scaled by the rate.

    ``segments`` are heads: each is cut on its own, so a narrow model keeps every head.
    """

    group: str
    width: int
    segments: int = 1


@dataclass(frozen=True)
class Labels:
    """An axis of classes or words, then ``extra`` entries that every client holds."""

    size: int
    extra: int = 0

    @property
    def width(self) -> int:
        return self.size + self.extra


@dataclass(frozen=True)
class Fixed:
    """An axis that is never cut: input channels, kernel sides, positions."""

    width: int


Axis = Channels | Labels | Fixed
Layout = Mapping[str, tuple[Axis, ...]]
"""Parameter name -> its axes, in the model's own order."""

_Module = TypeVar("_Module", bound=nn.Module)


def label_axes(layout: Layout) -> dict[str, dict[int, int]]:
    """Of the parameters that have some, the axes of classes or words, each with its extra."""
    found = {
        name: {number: axis.extra for number, axis in enumerate(axes) if isinstance(axis, Labels)}
        for name, axes in layout.items()
    }
    return {name: axes for name, axes in found.items() if axes}


def scaled(full: int, rate: float) -> int:
    """ceil(rate x full), with the rounding error of a product such as 0.07 x 100 taken out."""
    return max(1, math.ceil(full * rate - 1e-9))


def channels(group: str, full: int, rate: float, segments: int = 1) -> Channels:
    """A group of ``full`` channels at ``rate``; each of its segments is scaled by itself."""
    return Channels(group, segments * scaled(full // segments, rate), segments)


def tag(module: _Module, **axes: tuple[Axis, ...]) -> _Module:
    """Note the axes of a module's own parameters on it."""
    module.axes = axes  # type: ignore[assignment]
    return module


@dataclass(frozen=True)
class Place:
    """Where a parameter is: in which block from the bottom, and its name there.

    Block 0 is what comes before the first one. A parameter without a place is in the head.
    """

    block: int
    name: str


def in_block(module: _Module, block: int, name: str = "") -> _Module:
    """Note that a module is (part of) a block; ``name`` tells it from the block's other parts."""
    module.block = (block, name)  # type: ignore[assignment]
    return module


def read_blocks(model: nn.Module) -> dict[str, Place]:
    """The place of every parameter that is in a block."""
    places: dict[str, Place] = {}
    for path, module in model.named_modules():
        if hasattr(module, "block"):
            block, part = module.block
            for name, _ in module.named_parameters():
                places[f"{path}.{name}"] = Place(block, f"{part}.{name}".removeprefix("."))
    return places


def read_layout(model: nn.Module) -> Layout:
    """The layout of a model whose layers were made by `layers`."""
    layout: dict[str, tuple[Axis, ...]] = {}
    for path, module in model.named_modules():
        axes = getattr(module, "axes", {})
        for name, parameter in module.named_parameters(recurse=False):
            full_name = f"{path}.{name}" if path else name
            if name not in axes:
                raise ConfigError(f"model: parameter {full_name!r} has no layout; tag its layer")
            if tuple(axis.width for axis in axes[name]) != tuple(parameter.shape):
                raise ConfigError(
                    f"model: parameter {full_name!r} has shape {tuple(parameter.shape)}, "
                    f"its layout says {tuple(axis.width for axis in axes[name])}"
                )
            layout[full_name] = axes[name]
    return layout
