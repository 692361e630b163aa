"""NumPy's .npz files: x and y, or train_x, train_y, test_x and test_y."""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import numpy as np

from heterofl_ray.data.intake.limits import Budget, half_of_memory, unpacked
from heterofl_ray.data.intake.readers.contract import Array, Labelled, Options, Part
from heterofl_ray.errors import DataError, shown

_CLIENTS = ("client", "writer")
_NAMES = ("classes", "class_names", "fine_names")


def read(place: Path, options: Options) -> Labelled:
    """Arrays by name; 'client' or 'writer' and 'coarse' may stand beside them."""
    arrays = _load(place)
    train = _part(arrays, "" if "x" in arrays else "train_", options, place)
    test: Part | None = None
    if options.test is not None:
        held = _load(options.test)
        test = _part(held, "" if "x" in held else "test_", options, options.test)
    elif "test_x" in arrays:
        test = _part(arrays, "test_", options, place)
    return Labelled(train, test, _texts(arrays, _NAMES), _texts(arrays, ("coarse_names",)))


def _load(path: Path) -> dict[str, Array]:
    if path.is_file() and not zipfile.is_zipfile(path):
        raise DataError(f"{path} is not a readable .npz file: it is no zip archive")
    try:
        _check_claims(path)
        # Without pickles a file can hold nothing but numbers and texts.
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (
        *(OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError),
        *(RuntimeError, TypeError, SyntaxError, tokenize.TokenError),  # of a damaged header
        *(MemoryError, OverflowError),
    ) as error:
        reason = getattr(error, "strerror", None) or str(error)[:200]
        raise DataError(f"{path} is not a readable .npz file: {reason}") from None


def _check_claims(path: Path) -> None:
    """Refuse arrays that are larger than what the file can stand for, before they are made."""
    most = min(unpacked(path.stat().st_size), half_of_memory())
    budget = Budget(most, f"{path}: its arrays take")
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.filename.endswith(".npy"):
                raise ValueError(f"{shown(member.filename)} in it is no array")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError("it is not packed as NumPy packs")
            budget.take(member.file_size)
            with archive.open(member) as stream:
                claimed = _claimed(stream)
                if claimed is not None and claimed != member.file_size - stream.tell():
                    held = member.file_size - stream.tell()
                    raise ValueError(f"{member.filename} claims {claimed} bytes but holds {held}")


def _claimed(stream: IO[bytes]) -> int | None:
    """The bytes of the array whose header comes next; None: of Python objects."""
    version = np.lib.format.read_magic(stream)
    reads = np.lib.format.read_array_header_1_0
    if version != (1, 0):
        reads = np.lib.format.read_array_header_2_0
    shape, _, kind = reads(stream)
    return None if kind.hasobject else math.prod(shape) * kind.itemsize


def _part(arrays: Mapping[str, Array], prefix: str, options: Options, place: Path) -> Part:
    label = prefix + (options.label or "y")
    for wanted in (f"{prefix}x", label):
        if wanted not in arrays:
            raise DataError(
                f"{place} has no array {wanted!r}; it has {', '.join(arrays) or 'none'} "
                "(x and y, or train_x, train_y, test_x and test_y, are read)"
            )
    names = (options.client,) if options.client else _CLIENTS
    client = next((prefix + name for name in names if prefix + name in arrays), None)
    if options.client and client is None:
        raise DataError(f"{place} has no array {prefix + options.client!r}; --client names one")
    return Part(
        arrays[f"{prefix}x"],
        arrays[label],
        arrays[client] if client else None,
        arrays.get(f"{prefix}coarse"),
    )


def _texts(arrays: Mapping[str, Array], names: tuple[str, ...]) -> tuple[str, ...]:
    """The first array of names there is."""
    found = next((arrays[name] for name in names if name in arrays), np.empty(0, dtype=str))
    return tuple(str(text) for text in found.ravel())
