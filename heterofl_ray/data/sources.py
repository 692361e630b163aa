"""A data set by its name: mapped when it is in place, converted first when it can be."""

from __future__ import annotations

import pkgutil
from pathlib import Path

from heterofl_ray.data.catalog import SOURCES
from heterofl_ray.data.places import stored
from heterofl_ray.data.store import Dataset, open_dataset, write_dataset
from heterofl_ray.errors import ConfigError


def load(name: str, root: Path) -> Dataset:
    """The data set ``name`` in the folder ``root``."""
    if name in stored(root):
        return open_dataset(root, name)
    if name not in SOURCES:
        raise ConfigError.unknown("data", name, sorted({*SOURCES, *stored(root)}))
    return write_dataset(root, pkgutil.resolve_name(SOURCES[name].convert)())
