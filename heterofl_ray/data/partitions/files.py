"""Partitions as Arrow files, so that all workers of a machine map one copy.

A file holds one column of lists, one list of example numbers per client: Arrow keeps that as the
very offsets and indices of a `Partition`. Its name says all that decides the content, and it is
put in place by one rename. A file that is missing, damaged or cannot be written costs no more than
building the partition in memory.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.partitions.partition import Partition
from heterofl_ray.data.store import Dataset, column_of, numbers

FORMAT = 1
"""Raised whenever the same settings come to mean another partition."""

_COLUMN = "examples"


def place(dataset: Dataset, config: ExperimentConfig, part: str) -> Path:
    """Where the partition of a part of the data set lies: beside the data sets' folders."""
    decides = (FORMAT, dataset.folder.name, part, config.partition, config.clients, config.seed)
    digest = hashlib.sha256("\n".join(map(str, decides)).encode()).hexdigest()[:16]
    return dataset.folder.parent / "partitions" / f"{dataset.info.name}-{digest}.arrow"


def shared(path: Path, clients: int, build: Callable[[], Partition]) -> Partition:
    """The partition in this file, mapped; built and written first when it is not there."""
    try:
        return read(path, clients)
    except (OSError, ValueError, KeyError):
        built = build()
    try:
        write(path, built)
        return read(path, clients)
    except OSError:
        return built


def write(path: Path, partition: Partition) -> None:
    lists = pa.LargeListArray.from_arrays(
        column_of(partition.offsets), column_of(partition.indices)
    )
    batch = pa.record_batch([lists], names=[_COLUMN])
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".partial-{uuid.uuid4().hex}")
    try:
        with pa.OSFile(str(partial), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def read(path: Path, clients: int) -> Partition:
    """Map a partition; ValueError, KeyError or OSError when the file is not what it should be."""
    with pa.memory_map(str(path)) as source:
        lists = pa.ipc.open_file(source).get_batch(0).column(_COLUMN)
    lists.validate()
    if not pa.types.is_large_list(lists.type):
        raise ValueError(f"{path} holds {lists.type}, not lists of example numbers")
    offsets, indices = numbers(lists.offsets), numbers(lists.values)
    if len(offsets) != clients + 1 or offsets[0] != 0 or offsets[-1] != len(indices):
        raise ValueError(f"{path} is not a partition over {clients} clients")
    return Partition(offsets, indices)
