"""A data set by its name: mapped when it is in place, converted first when it can be."""

from __future__ import annotations

import pkgutil
from pathlib import Path

from heterofl_ray.data import catalog
from heterofl_ray.data.catalog import SOURCES
from heterofl_ray.data.places import raw_dir, stored, stored_name
from heterofl_ray.data.store import Dataset, Draft, open_dataset, write_dataset
from heterofl_ray.errors import ConfigError, DataError


def load(name: str, root: Path) -> Dataset:
    """The data set ``name`` in the folder ``root``."""
    source = catalog.find(name)
    if source is None and name not in stored(root):
        raise ConfigError.unknown("data", name, sorted({*SOURCES, *stored(root)}))
    if stored_name(name) in stored(root):
        return open_dataset(root, stored_name(name))
    return write_dataset(root, convert(name, root))


def convert(name: str, root: Path) -> Draft:
    """A known data set: from nothing, from the size in its name, or from its raw files."""
    source = SOURCES[name.partition(":")[0]]
    match source.kind:
        case "embedded":
            draft: Draft = pkgutil.resolve_name(source.convert)()
        case "generated":
            make = pkgutil.resolve_name(source.convert)
            draft = make(stored_name(name), catalog.size_of(name))
        case _:
            folder = raw_dir(root, name)
            if not (folder.is_dir() and any(folder.iterdir())):
                raise DataError(f"{name} is not there yet: {catalog.missing_files(name, folder)}")
            # here: most runs find their data in place, and the readers take a while to load
            from heterofl_ray.data.intake import importing

            draft = importing.read_known(folder, name, source)
    return draft
