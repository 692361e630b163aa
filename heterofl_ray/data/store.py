"""Data sets on disk: Arrow IPC files that are memory-mapped and viewed as tensors, never copied.

A data set NAME is the small file ``NAME.json``, which says what it is and in which folder its
Arrow files lie. Folders are named by their content and put in place by one rename each, so two
processes that write the same data set at once do no harm, and nothing half-written is ever seen.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import uuid
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from heterofl_ray.data.info import DataInfo, read_info
from heterofl_ray.data.places import check_name
from heterofl_ray.errors import DataError

Columns = Mapping[str, "np.ndarray[Any, Any]"]


@dataclass(frozen=True)
class Split:
    """One part of a data set, as views of mapped memory."""

    columns: Mapping[str, Tensor]

    @property
    def images(self) -> Tensor:
        return self.columns["image"]

    @property
    def labels(self) -> Tensor:
        return self.columns["label"]

    @property
    def clients(self) -> Tensor:
        return self.columns["client"]

    @property
    def tokens(self) -> Tensor:
        return self.columns["token"]


@dataclass(frozen=True)
class Dataset:
    info: DataInfo
    train: Split
    test: Split
    folder: Path

    def vocabulary(self) -> list[str]:
        """The words of a text data set, by token number."""
        with pa.memory_map(str(self.folder / "vocabulary.arrow")) as source:
            words: list[str] = pa.ipc.open_file(source).read_all()["word"].to_pylist()
        return words


@dataclass
class Draft:
    """A data set about to be written: a split is filled by one call, text brings its words."""

    info: DataInfo
    splits: Mapping[str, Columns] = field(default_factory=dict)
    words: list[str] | None = None


def write_dataset(root: Path, draft: Draft) -> Dataset:
    """Put a data set in place, all or nothing; equal content is stored once."""
    check_name(draft.info.name)
    before = _folder_of(root, draft.info.name)
    with scratch_folder(root) as scratch:
        for split, columns in draft.splits.items():
            _write_split(scratch / f"{split}.arrow", columns)
        if draft.words is not None:
            _write_table(scratch / "vocabulary.arrow", pa.table({"word": draft.words}))
        digest, size = fingerprint(scratch)
        folder = root / f"{draft.info.name}-{digest}"
        try:
            scratch.rename(folder)
        except OSError:  # somebody else put the same content there first
            if not folder.is_dir():
                raise
        info = dataclasses.replace(draft.info, bytes=size)
        write_atomically(
            root / f"{info.name}.json",
            json.dumps({"folder": folder.name, **info.to_dict()}, indent=1),
        )
    if before is not None and before != folder:
        shutil.rmtree(before, ignore_errors=True)  # whoever has it mapped keeps what is mapped
    return open_dataset(root, info.name)


def _folder_of(root: Path, name: str) -> Path | None:
    """Where the content of a data set lies that is in place already."""
    try:
        return read_info(root, name)[1]
    except DataError:
        return None


def open_dataset(root: Path, name: str) -> Dataset:
    """Map a data set that is in place."""
    info, folder = read_info(root, name)
    try:
        splits = {split: _map_split(folder / f"{split}.arrow", info) for split in ("train", "test")}
    except (OSError, pa.ArrowException, LookupError, ValueError, TypeError) as error:
        raise DataError(f"data set {name!r} in {folder} is damaged: {error}") from None
    return Dataset(info, splits["train"], splits["test"], folder)


def view(array: np.ndarray[Any, Any]) -> Tensor:
    """A tensor on the array's own memory; mapped memory is read-only, and nothing writes to it."""
    _hear_the_warning()
    return torch.from_numpy(array)


# Arrow's own `pa.array` and `to_numpy` first import pandas, for half a second.


def column_of(array: np.ndarray[Any, Any]) -> pa.Array:
    """A column on the array's own memory; all that is behind its first axis is bytes."""
    flat = np.ascontiguousarray(array)
    width = flat[:1].nbytes if flat.ndim > 1 else 0
    kind = pa.binary(width) if width else pa.from_numpy_dtype(flat.dtype)
    return pa.Array.from_buffers(kind, len(flat), [None, pa.py_buffer(flat)])


def numbers(column: pa.Array) -> np.ndarray[Any, Any]:
    """A column's own memory; ValueError if it does not hold a number in every place."""
    kind, missing = column.type, column.null_count
    if missing or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise ValueError(f"a column is {kind}, {missing} of them missing, where numbers belong")
    return np.from_dlpack(column)


@cache
def _hear_the_warning() -> None:
    """Torch warns of read-only arrays once in a process; this is that once, and nobody hears."""
    array = np.zeros(1)
    array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.from_numpy(array)


def _write_split(path: Path, columns: Columns) -> None:
    arrays = [column_of(array) for array in columns.values()]
    _write_table(path, pa.Table.from_arrays(arrays, names=list(columns)))


def _write_table(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=max(1, table.num_rows))


def _map_split(path: Path, info: DataInfo) -> Split:
    with pa.memory_map(str(path)) as source:
        batch = pa.ipc.open_file(source).get_batch(0)
    batch.validate()  # that each column has the bytes it claims
    columns = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_fixed_size_binary(column.type):
            flat = np.frombuffer(column.buffers()[1], dtype=info.dtype)
            columns[name] = view(flat.reshape(len(column), *info.shape))
        else:
            columns[name] = view(numbers(column))
    return Split(columns)


def fingerprint(folder: Path) -> tuple[str, int]:
    """The digest that a folder is named by, and its bytes."""
    digest, size = hashlib.sha256(), 0
    for path in sorted(folder.iterdir()):
        digest.update(path.name.encode())
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
                size += len(block)
    return digest.hexdigest()[:16], size


@contextmanager
def scratch_folder(root: Path) -> Iterator[Path]:
    """A folder beside the data sets that is gone afterwards, unless it was renamed."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        scratch = _partial(root)  # not mkdtemp: others may share the folder
        scratch.mkdir()
    except OSError as error:
        raise DataError(f"{root} cannot be written to: {error.strerror}") from None
    try:
        yield scratch
    except OSError as error:  # such as a full disk
        raise DataError(f"{root} cannot be written to: {error.strerror or error}") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def write_atomically(path: Path, text: str) -> None:
    partial = _partial(path.parent)
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def _partial(folder: Path) -> Path:
    return folder / f".partial-{uuid.uuid4().hex}"
