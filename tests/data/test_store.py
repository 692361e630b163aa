"""Data sets on disk: whole or not there, mapped and never copied, named by content."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from heterofl_ray.data import store
from heterofl_ray.data.info import DataInfo, read_info
from heterofl_ray.data.places import stored, stored_name
from heterofl_ray.data.store import Draft, open_dataset, write_dataset
from heterofl_ray.errors import DataError


def draft(name: str = "some", value: int = 0) -> Draft:
    info = DataInfo(
        name=name, kind="images", train=3, test=1, shape=(1, 2, 2), classes=("a", "b"), clients=2
    )
    part = {
        "image": np.arange(12, dtype=np.uint8).reshape(3, 1, 2, 2) + value,
        "label": np.array([0, 1, 0]),
        "client": np.array([1, 0, 1]),
    }
    return Draft(info, {"train": part, "test": {key: column[:1] for key, column in part.items()}})


def test_what_was_written_is_read(root: Path) -> None:
    dataset = write_dataset(root, draft())
    assert dataset.train.images.tolist() == np.arange(12).reshape(3, 1, 2, 2).tolist()
    assert dataset.train.images.dtype == torch.uint8
    assert dataset.train.labels.tolist() == [0, 1, 0]
    assert dataset.train.clients.tolist() == [1, 0, 1]
    assert dataset.test.labels.tolist() == [0]
    files = list(dataset.folder.iterdir())
    assert dataset.info.bytes == sum(path.stat().st_size for path in files)
    assert read_info(root, "some") == (dataset.info, dataset.folder)
    assert stored(root) == ["some"]


def test_feature_vectors_of_one_number(root: Path) -> None:
    info = DataInfo(
        name="one", kind="images", train=2, test=2, shape=(1,), dtype="float32", classes=("a",)
    )
    part = {"image": np.array([[0.5], [1.5]], dtype=np.float32), "label": np.zeros(2, np.int64)}
    dataset = write_dataset(root, Draft(info, {"train": part, "test": part}))
    assert dataset.train.images.tolist() == [[0.5], [1.5]]


def test_views_are_on_mapped_memory(root: Path) -> None:
    dataset = write_dataset(root, draft())
    held = Path("/proc/self/maps").read_text() if Path("/proc/self/maps").exists() else None
    if held is None:
        pytest.skip("only Linux shows what is mapped")
    assert str(dataset.folder / "train.arrow") in held


def test_equal_content_is_stored_once_and_other_content_elsewhere(root: Path) -> None:
    first = write_dataset(root, draft())
    assert write_dataset(root, draft()).folder == first.folder
    other = write_dataset(root, draft(value=1))
    assert other.folder != first.folder
    assert open_dataset(root, "some").train.images.min() == 1
    assert not list(root.glob(".partial-*"))


def test_nothing_is_left_when_writing_fails(root: Path) -> None:
    wrong = draft()
    wrong.splits["test"]["label"] = np.array([object()])  # type: ignore[index]
    with pytest.raises(pa.ArrowNotImplementedError):
        write_dataset(root, wrong)
    assert list(root.iterdir()) == []
    assert write_dataset(root, draft()).info.train == 3


def test_a_place_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written to"):
        write_dataset(tmp_path / "file", draft())


def test_a_full_disk(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(store, "_write_table", fail)
        with pytest.raises(DataError, match="cannot be written to: No space left on device"):
            write_dataset(root, draft())
    assert list(root.iterdir()) == []


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"folder": "x"}', '{"folder": "x", "name": 1, "extra": 2}']
)
def test_a_damaged_description(text: str, root: Path) -> None:
    write_dataset(root, draft())
    (root / "some.json").write_text(text)
    with pytest.raises(DataError, match=r"some.json is damaged"):
        open_dataset(root, "some")


def test_damaged_files(root: Path) -> None:
    path = write_dataset(root, draft()).folder / "train.arrow"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match="is damaged"):
        open_dataset(root, "some")
    path.unlink()
    with pytest.raises(DataError, match="is damaged"):
        open_dataset(root, "some")


@pytest.mark.parametrize("folder", ["../../elsewhere/{}", "..", "/{}", "{}/x", "some", "", 3, None])
def test_a_description_cannot_lead_outside(folder: object, root: Path) -> None:
    dataset = write_dataset(root, draft())
    values = json.loads((root / "some.json").read_text())
    named = folder.format(dataset.folder.name) if isinstance(folder, str) else folder
    (root / "some.json").write_text(json.dumps(values | {"folder": named}))
    with pytest.raises(DataError, match=r"some.json is damaged .* is no data set's folder"):
        open_dataset(root, "some")


@pytest.mark.parametrize(
    "wrong",
    [
        *({"train": "8"}, {"train": -1}, {"train": True}, {"shape": 3}, {"shape": ["a"]}),
        *({"classes": [1]}, {"mean": ["x"]}, {"augment": 1}, {"kind": None}),
    ],
    ids=str,
)
def test_a_description_of_wrong_types(wrong: dict[str, object], root: Path) -> None:
    write_dataset(root, draft())
    values = json.loads((root / "some.json").read_text())
    (root / "some.json").write_text(json.dumps(values | wrong))
    with pytest.raises(DataError, match=f"some.json is damaged .{next(iter(wrong))}="):
        open_dataset(root, "some")


@pytest.mark.parametrize("wrong", [{"dtype": "O"}, {"dtype": "zz"}, {"shape": [10**6] * 3}])
def test_files_that_do_not_hold_what_is_described(wrong: dict[str, object], root: Path) -> None:
    write_dataset(root, draft())
    values = json.loads((root / "some.json").read_text())
    (root / "some.json").write_text(json.dumps(values | wrong))
    with pytest.raises(DataError, match="is damaged"):
        open_dataset(root, "some")


@pytest.mark.parametrize(
    ("labels", "said"),
    [([0, None, 0], "int64, 1 of them missing"), ([True, False, True], "bool, 0 of them missing")],
    ids=["missing", "no numbers"],
)
def test_columns_that_do_not_hold_numbers(labels: list[object], said: str, root: Path) -> None:
    folder = write_dataset(root, draft()).folder
    with pa.memory_map(str(folder / "train.arrow")) as source:
        table = pa.ipc.open_file(source).read_all()
    gaps = table.set_column(1, "label", pa.array(labels))
    store._write_table(folder / "train.arrow", gaps)
    with pytest.raises(DataError, match=f"is damaged: a column is {said}, where"):
        open_dataset(root, "some")


def test_content_that_is_replaced_leaves_nothing_behind(root: Path) -> None:
    first = write_dataset(root, draft())
    kept = first.train.images.clone()
    second = write_dataset(root, draft(value=1))
    assert second.folder != first.folder
    assert sorted(path.name for path in root.iterdir()) == [second.folder.name, "some.json"]
    assert torch.equal(first.train.images, kept)  # what is mapped stays


def test_a_data_set_that_is_not_there(root: Path) -> None:
    with pytest.raises(DataError, match="'other' is not in"):
        open_dataset(root, "other")
    with pytest.raises(DataError, match="not valid"):
        open_dataset(root, "../other")


def test_sizes_in_names_become_file_names() -> None:
    assert stored_name("synthetic-text:500") == "synthetic-text-500"
    assert stored_name("mnist") == "mnist"
