"""Data sets by name: from nothing, from a size, or from the files in their raw folder."""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from heterofl_ray import preflight
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data import sources
from heterofl_ray.data.catalog import SOURCES
from heterofl_ray.data.intake.readers.cifar import SUPER_CLASSES
from heterofl_ray.data.intake.vision import datasets
from heterofl_ray.data.sources import load
from heterofl_ray.errors import ConfigError, DataError

Idx = Callable[..., Path]


def raw(root: Path, name: str) -> Path:
    folder = root / "raw" / name
    folder.mkdir(parents=True)
    return folder


def test_embedded_digits(data_root: Path) -> None:
    info = load("digits", data_root).info
    assert (info.train, info.test, info.shape) == (1438, 359, (1, 8, 8))
    assert info.mean == (0.3059,)
    assert info.std == (0.3763,)


def test_converted_once_then_mapped(data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load("digits", data_root)
    monkeypatch.setattr(sources, "convert", lambda *_: pytest.fail("converted again"))
    again = load("digits", data_root)
    assert again.folder == first.folder
    assert torch.equal(again.train.images, first.train.images)


@pytest.mark.parametrize("name", [name for name, it in SOURCES.items() if it.kind == "files"])
def test_missing_files_are_named_with_their_place(name: str, root: Path) -> None:
    with pytest.raises(DataError) as caught:
        load(name, root)
    said = str(caught.value)
    assert str(root / "raw" / name) in said
    assert SOURCES[name].files in said
    assert (f"heterofl-ray data fetch {name}" in said) == bool(SOURCES[name].remote)
    assert "\n" not in said


def test_an_unknown_name_suggests_a_known_one(root: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'cifar10'"):
        load("cifar-10", root)


def test_mnist_has_its_published_statistics(root: Path, idx: Idx) -> None:
    idx("data/raw/mnist")
    info = load("mnist", root).info
    assert (info.train, info.test, info.mean, info.std) == (8, 4, (0.1307,), (0.3081,))
    assert not info.augment


def test_fashion_mnist_computes_its_statistics(root: Path, idx: Idx) -> None:
    idx("data/raw/fashion-mnist", packed=False)
    dataset = load("fashion-mnist", root)
    pixels = dataset.train.images.double() / 255
    assert dataset.info.mean == (round(float(pixels.mean()), 4),)
    assert dataset.info.std == (round(float(pixels.std(correction=0)), 4),)


def test_emnist_letters_stand_upright_and_start_at_a(root: Path, idx: Idx, tmp_path: Path) -> None:
    # The published archive holds other sets too.
    place = idx("gzip", prefix="emnist-letters-", test="test", first=1)
    idx("gzip", prefix="emnist-digits-", test="test")
    with zipfile.ZipFile(raw(root, "emnist-letters") / "gzip.zip", "w") as archive:
        for path in place.iterdir():
            archive.write(path, f"gzip/{path.name}")
    dataset = load("emnist-letters", root)
    assert dataset.info.classes == ("a", "b")
    assert dataset.train.labels.tolist() == [0, 1] * 4
    lying = torch.arange(784).reshape(28, 28) % 251
    assert torch.equal(dataset.train.images[0, 0].long(), lying.T)


def test_femnist_is_kept_by_writer(root: Path) -> None:
    folder = raw(root, "femnist")
    for split, counts in (("train", {"f07": 2, "f01": 1}), ("test", {"f01": 1, "f07": 1})):
        data: dict[str, Any] = {
            user: {"x": [[number / 255] * 784 for number in range(count)], "y": [10] * count}
            for user, count in counts.items()
        }
        data["f01"]["y"] = [61]
        (folder / split).mkdir()
        (folder / split / "all_data_0.json").write_text(
            json.dumps({"users": list(counts), "user_data": data})
        )
    dataset = load("femnist", root)
    assert dataset.info.clients == 2
    assert dataset.info.classes == ("A", "z")
    assert dataset.train.clients.tolist() == [1, 1, 0]
    assert dataset.train.labels.tolist() == [0, 0, 1]
    assert dataset.train.images[:, 0, 5, 5].tolist() == [0, 1, 0]
    assert dataset.test.clients.tolist() == [0, 1]


def cifar_batches(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CIFAR-10 in miniature: two images a batch; its sums take the place of the published ones."""
    folder.mkdir(parents=True)
    kind = datasets().CIFAR10
    contents: dict[str, Any] = {"batches.meta": {"label_names": [f"class{n}" for n in range(10)]}}
    for number, (name, _) in enumerate((*kind.train_list, *kind.test_list)):
        values = np.full((2, 3072), number, dtype=np.uint8)
        values[:, 1024:2048] += 100
        contents[name] = {"data": values, "labels": [number % 5, 9]}
    sums = {}
    for name, content in contents.items():
        written = pickle.dumps(content)
        (folder / name).write_bytes(written)
        sums[name] = hashlib.md5(written).hexdigest()
    for attribute in ("train_list", "test_list"):
        published = [[name, sums[name]] for name, _ in getattr(kind, attribute)]
        monkeypatch.setattr(kind, attribute, published)
    monkeypatch.setattr(kind, "meta", kind.meta | {"md5": sums["batches.meta"]})


@pytest.mark.parametrize("place", ["cifar-10-batches-py", ".", "archive"])
def test_cifar10_batches(place: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = root / "raw" / "cifar10"
    cifar_batches(folder / "cifar-10-batches-py", monkeypatch)
    if place == ".":
        for path in (folder / "cifar-10-batches-py").iterdir():
            path.rename(folder / path.name)
        (folder / "cifar-10-batches-py").rmdir()
    elif place == "archive":
        with tarfile.open(folder / "cifar-10-python.tar.gz", "w:gz") as archive:
            archive.add(folder / "cifar-10-batches-py", "cifar-10-batches-py")
        shutil.rmtree(folder / "cifar-10-batches-py")
    dataset = load("cifar10", root)
    info = dataset.info
    assert (info.train, info.test, info.shape, info.augment) == (10, 2, (3, 32, 32), True)
    assert (info.mean, info.std) == ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))
    assert dataset.train.images[2, :, 0, 0].tolist() == [1, 101, 1]
    assert info.classes == ("class0", "class1", "class2", "class3", "class4", "class9")
    assert dataset.train.labels.tolist() == [0, 5, 1, 5, 2, 5, 3, 5, 4, 5]


def test_batches_that_are_not_the_published_ones_are_never_unpickled(
    root: Path, tmp_path: Path
) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "ran",))

    folder = raw(root, "cifar10")
    for number in range(1, 6):
        (folder / f"data_batch_{number}").write_bytes(pickle.dumps(Evil()))
    for name in ("test_batch", "batches.meta"):
        (folder / name).write_bytes(pickle.dumps(Evil()))
    with pytest.raises(DataError, match="md5 differs"):
        load("cifar10", root)
    assert not (tmp_path / "ran").exists()
    assert [path.name for path in root.iterdir()] == ["raw"]
    (folder / "test_batch").unlink()
    with pytest.raises(DataError, match="lacks CIFAR's file test_batch"):
        load("cifar10", root)


def test_cifar100_has_super_classes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = raw(root, "cifar100")
    fine = sorted(name for group in SUPER_CLASSES.values() for name in group)
    kind = datasets().CIFAR100
    contents = {
        name: {"data": np.zeros((100, 3072), np.uint8), "fine_labels": list(range(100))}
        for name in ("train", "test")
    }
    sums = {}
    for name, content in (contents | {"meta": {"fine_label_names": fine}}).items():
        written = pickle.dumps(content)
        (folder / name).write_bytes(written)
        sums[name] = hashlib.md5(written).hexdigest()
    monkeypatch.setattr(kind, "train_list", [["train", sums["train"]]])
    monkeypatch.setattr(kind, "test_list", [["test", sums["test"]]])
    monkeypatch.setattr(kind, "meta", kind.meta | {"md5": sums["meta"]})
    dataset = load("cifar100", root)
    coarse = dataset.train.columns["coarse"].tolist()
    assert len(dataset.info.classes) == 100
    assert len(dataset.info.coarse) == 20
    of = {name: dataset.info.coarse[coarse[fine.index(name)]] for name in fine}
    assert of["whale"] == "aquatic_mammals"
    assert of["tractor"] == "vehicles_2"
    assert [coarse.count(number) for number in range(20)] == [5] * 20


def test_wikitext2_from_its_archive(root: Path) -> None:
    with zipfile.ZipFile(raw(root, "wikitext2") / "wikitext-2-v1.zip", "w") as archive:
        for split, text in (("train", "a <unk> b\n"), ("valid", "x\n"), ("test", "b c\n")):
            archive.writestr(f"wikitext-2/wiki.{split}.tokens", text)
    dataset = load("wikitext2", root)
    assert dataset.vocabulary() == ["<unknown>", "a", "<unk>", "b", "<eos>"]
    assert dataset.test.tokens.tolist() == [3, 0, 4]


def test_ptb_from_its_files(root: Path) -> None:
    folder = raw(root, "ptb")
    for split in ("train", "valid", "test"):
        (folder / f"ptb.{split}.txt").write_text(f" no {split} \n")
    dataset = load("ptb", root)
    assert dataset.train.tokens.tolist() == [1, 2, 3]
    assert dataset.test.tokens.tolist() == [1, 0, 3]


def test_wrong_raw_files_leave_nothing_and_right_ones_then_work(root: Path, idx: Idx) -> None:
    folder = raw(root, "mnist")
    (folder / "notes.md").write_text("nothing to read here")
    with pytest.raises(DataError, match="holds nothing that can be read"):
        load("mnist", root)
    assert [path.name for path in root.iterdir()] == ["raw"]
    idx("data/raw/mnist")
    assert load("mnist", root).info.train == 8


@pytest.mark.parametrize("data", ["synthetic-images", "synthetic-images:100", "digits", "mnist"])
def test_preflight_knows_the_names(data: str) -> None:
    preflight.check(ExperimentConfig(data=data, model="conv"), [])
    with pytest.raises(ConfigError, match=f"data={data} is images; use "):
        preflight.check(ExperimentConfig(data=data, model="transformer"), [])


@pytest.mark.parametrize(
    "data",
    [
        *("synthetic-images:", "synthetic-images:x", "synthetic-images:9", "synthetic-images:-5"),
        *("synthetic-images:10000001", "synthetic-images:1e3", "digits:5", "synthetic-text:5:6"),
        "synthetic-text:٥٥",
    ],
)
def test_preflight_refuses_wrong_sizes(data: str) -> None:
    with pytest.raises(ConfigError, match=r"^data="):
        preflight.check(ExperimentConfig(data=data, model="conv"), [])
