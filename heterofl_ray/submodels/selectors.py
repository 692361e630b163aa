"""Which channels of each group a sub-model keeps."""

from __future__ import annotations

from collections.abc import Mapping

from heterofl_ray.models.layout import Channels, Layout
from heterofl_ray.submodels.plan import Leading, Selection


def leading(outer: Layout, inner: Layout) -> Mapping[str, Selection]:
    """HeteroFL's static choice: the leading channels of each group, per head where it has heads."""
    wide, narrow = _groups(outer), _groups(inner)
    return {
        group: Leading(
            wide[group].segments,
            wide[group].width // wide[group].segments,
            narrow[group].width // narrow[group].segments,
        )
        for group in wide
    }


def _groups(layout: Layout) -> dict[str, Channels]:
    """Each channel group once."""
    return {
        axis.group: axis for axes in layout.values() for axis in axes if isinstance(axis, Channels)
    }
