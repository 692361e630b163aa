"""A sub-model as data: for every parameter, which entries along each axis it holds.

One plan serves every model and method: it cuts a sub-model out of a larger one, writes it back,
and tells the aggregation where an update adds. A plan whose label rows are restricted describes
what a client holds that knows only some classes or words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from heterofl_ray.models.layout import Channels, Labels, Layout


@dataclass(frozen=True)
class Whole:
    """Every entry of an axis."""


@dataclass(frozen=True)
class Leading:
    """The first ``inner`` of every ``outer`` entries, in each of ``segments`` equal parts."""

    segments: int
    outer: int
    inner: int


@dataclass(frozen=True, eq=False)
class Picked:
    """The entries at these distinct places, in this order."""

    places: Tensor


Selection = Whole | Leading | Picked
_WHOLE = Whole()


@dataclass(frozen=True, eq=False)
class SubmodelPlan:
    """For every parameter of the outer model, the selection along each of its axes."""

    selections: Mapping[str, tuple[Selection, ...]]

    @classmethod
    def of(
        cls,
        outer: Layout,
        channels: Mapping[str, Selection] | None = None,
        labels: Tensor | None = None,
    ) -> SubmodelPlan:
        """Cut channel axes as ``channels`` says per group, label axes to ``labels`` (None: all)."""
        selections: dict[str, tuple[Selection, ...]] = {}
        for name, axes in outer.items():
            chosen: list[Selection] = []
            for axis in axes:
                if isinstance(axis, Channels) and channels is not None:
                    chosen.append(channels[axis.group])
                elif isinstance(axis, Labels) and labels is not None:
                    chosen.append(Picked(with_extra(labels, axis)))
                else:
                    chosen.append(_WHOLE)
            selections[name] = tuple(chosen)
        return cls(selections)

    def extract(self, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The sub-model's parameters, as tensors of their own."""
        return {
            name: Window.on(parameters[name], chosen).read()
            for name, chosen in self.selections.items()
        }

    def scatter(self, into: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
        """Write a sub-model's parameters back to their places, in place."""
        for name, chosen in self.selections.items():
            Window.on(into[name], chosen).write(values[name])

    def add(self, into: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
        """Add a sub-model's tensors at their places, in place."""
        for name, window in self.windows(into).items():
            window.add(values[name])

    def windows(self, tensors: Mapping[str, Tensor]) -> dict[str, Window]:
        """Views of the sub-model's part of ``tensors``, to be read or added to many times."""
        return {name: Window.on(tensors[name], chosen) for name, chosen in self.selections.items()}


def with_extra(labels: Tensor, axis: Labels) -> Tensor:
    """The places of ``labels`` on a label axis, and of the entries that every client holds."""
    return torch.cat([labels, torch.arange(axis.size, axis.width, device=labels.device)])


@dataclass(frozen=True)
class Window:
    """A view of the selected entries of one tensor.

    Leading selections are plain strided views (a segmented axis is split in two). Picked axes
    cannot be views; they are indexed when the window is read or written.
    """

    view: Tensor
    segmented: tuple[tuple[int, int], ...]
    """(axis, segments) of the tensor's own axes that are split in the view."""
    picks: tuple[tuple[int, Tensor], ...]

    @classmethod
    def on(cls, tensor: Tensor, selections: tuple[Selection, ...]) -> Window:
        segmented = tuple(
            (axis, chosen.segments)
            for axis, chosen in enumerate(selections)
            if isinstance(chosen, Leading) and chosen.segments > 1
        )
        picks = []
        view = tensor
        for axis in reversed(range(len(selections))):  # from the back: splitting shifts later axes
            match selections[axis]:
                case Leading(segments=1, inner=inner):
                    view = view.narrow(axis, 0, inner)
                case Leading(segments=segments, outer=outer, inner=inner):
                    view = view.unflatten(axis, (segments, outer)).narrow(axis + 1, 0, inner)
                case Picked(places=places):
                    shift = sum(split < axis for split, _ in segmented)
                    picks.append((axis + shift, places.to(tensor.device)))
        return cls(view, segmented, tuple(picks))

    def read(self) -> Tensor:
        taken = self.view
        for axis, places in self.picks:
            taken = taken.index_select(axis, places)
        if not self.picks:
            taken = taken.clone(memory_format=torch.contiguous_format)
        for split, _ in self.segmented:
            taken = taken.flatten(split, split + 1)
        return taken

    def write(self, values: Tensor) -> None:
        values = self.shaped(values)
        match self.picks:
            case ():
                self.view.copy_(values)
            case ((axis, places),):
                self.view.index_copy_(axis, places, values.expand(self._shape()))
            case _:
                self.view[self._grid()] = values

    def add(self, values: Tensor) -> None:
        values = self.shaped(values)
        match self.picks:
            case ():
                self.view.add_(values)
            case ((axis, places),):
                self.view.index_add_(axis, places, values.expand(self._shape()))
            case _:  # places are distinct, so no entry is added to twice
                self.view[self._grid()] += values

    def add_number(self, number: float) -> None:
        """The same to every selected entry."""
        if self.picks:
            self.add(self.view.new_full([1] * (self.view.dim() - len(self.segmented)), number))
        else:
            self.view.add_(number)

    def shaped(self, values: Tensor) -> Tensor:
        """``values`` as the view has them: its type, segmented axes split (one of 1 broadcasts)."""
        for split, segments in reversed(self.segmented):
            parts = (1, 1) if values.shape[split] == 1 else (segments, -1)
            values = values.unflatten(split, parts)
        return values if values.dtype == self.view.dtype else values.to(self.view.dtype)

    def _shape(self) -> list[int]:
        shape = list(self.view.shape)
        for axis, places in self.picks:
            shape[axis] = len(places)
        return shape

    def _grid(self) -> tuple[Tensor, ...]:
        """Index tensors that meet in every selected entry."""
        picked = dict(self.picks)
        shape = self._shape()
        grid = []
        for axis, size in enumerate(shape):
            places = picked.get(axis)
            if places is None:
                places = torch.arange(size, device=self.view.device)
            grid.append(places.view([-1 if other == axis else 1 for other in range(len(shape))]))
        return tuple(grid)
