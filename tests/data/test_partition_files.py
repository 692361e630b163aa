"""Partitions on disk: mapped as written, rebuilt when damaged, done without when read-only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.images import ImageClients
from heterofl_ray.data.partitions import files as partition_files
from heterofl_ray.data.partitions.partition import Partition
from heterofl_ray.data.sources import load
from heterofl_ray.randomness import Streams

THREE = Partition.of_sizes(np.array([2, 0, 1]), np.array([4, 1, 7]))


def refuse() -> Partition:
    raise AssertionError("built again")


def assert_same(one: Partition, other: Partition) -> None:
    assert np.array_equal(one.offsets, other.offsets)
    assert np.array_equal(one.indices, other.indices)


def test_round_trip_is_mapped_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "partitions" / "three.arrow"
    partition_files.write(path, THREE)
    mapped = partition_files.shared(path, 3, refuse)
    assert_same(mapped, THREE)
    assert not mapped.indices.flags.owndata
    assert not mapped.indices.flags.writeable
    assert [file.name for file in path.parent.iterdir()] == ["three.arrow"]


def test_built_once_then_shared(tmp_path: Path) -> None:
    path = tmp_path / "partitions" / "three.arrow"
    assert_same(partition_files.shared(path, 3, lambda: THREE), THREE)
    assert_same(partition_files.shared(path, 3, refuse), THREE)


@pytest.mark.parametrize("damage", ["cut", "empty", "other", "gaps", "words", "foreign"])
def test_a_damaged_file_is_built_anew(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "three.arrow"
    partition_files.write(path, THREE)
    match damage:
        case "cut":
            path.write_bytes(path.read_bytes()[:-20])
        case "empty":
            path.write_bytes(b"")
        case "other":  # a partition, but not over three clients
            partition_files.write(path, Partition.of_sizes(np.array([1]), np.array([0])))
        case "gaps" | "words":
            examples = pa.array([4, None, 7] if damage == "gaps" else ["4", "1", "7"])
            lists = pa.LargeListArray.from_arrays([0, 2, 2, 3], examples)
            batch = pa.record_batch([lists], names=["examples"])
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as file:
                file.write_batch(batch)
        case _:
            path.write_text("not Arrow at all, but long enough to be looked at twice\n" * 9)
    assert_same(partition_files.shared(path, 3, lambda: THREE), THREE)
    assert_same(partition_files.shared(path, 3, refuse), THREE)


def test_a_place_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "partitions").write_text("a file where the folder should be")
    path = tmp_path / "partitions" / "three.arrow"
    assert partition_files.shared(path, 3, lambda: THREE) is THREE


def test_the_name_says_all_that_decides(data_root: Path) -> None:
    data = load("digits", data_root)
    base = ExperimentConfig()
    places = [
        partition_files.place(data, config, part)
        for part in ("train", "test")
        for config in (
            base,
            base.override(["clients=10"]),
            base.override(["seed=1"]),
            base.override(["partition=classes:2"]),
        )
    ]
    assert len(set(places)) == 8
    assert partition_files.place(data, base.override(["rounds=3"]), "train") == places[0]
    assert places[0].parent == data_root / "partitions"


def test_mapped_and_built_clients_are_the_same(data_root: Path) -> None:
    data = load("digits", data_root)
    config = ExperimentConfig(partition="dirichlet:0.3", clients=12, seed=4)
    built, mapped = (ImageClients(data, config, Streams(4)) for _ in range(2))
    assert_same(built.train, mapped.train)
    assert_same(built.test, mapped.test)
