"""Data sets that travel to a machine without them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from heterofl_ray.data import shipping
from heterofl_ray.data.sources import load
from heterofl_ray.errors import DataError


@pytest.mark.parametrize("name", ["digits", "pydocs"])
def test_what_arrives_is_what_was_sent(name: str, data_root: Path, tmp_path: Path) -> None:
    sent = load(name, data_root)
    parcel = shipping.pack(data_root, name)
    assert shipping.ensure(tmp_path, name, sent.folder.name, lambda: parcel) == tmp_path
    arrived = load(name, tmp_path)
    assert arrived.info == sent.info
    assert arrived.folder.name == sent.folder.name
    for column, tensor in sent.train.columns.items():
        assert torch.equal(arrived.train.columns[column], tensor)
    assert not list(tmp_path.glob(".partial-*"))


def test_it_is_asked_for_only_where_it_is_missing(data_root: Path) -> None:
    folder = load("digits", data_root).folder.name

    def unwanted() -> shipping.Shipment:
        raise AssertionError("the data set is there already")

    assert shipping.ensure(data_root, "digits", folder, unwanted) == data_root


def test_another_data_set_of_the_same_name_will_not_do(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping.tempfile, "gettempdir", lambda: str(tmp_path / "own"))
    folder = load("digits", data_root).folder.name
    parcel = shipping.pack(data_root, "digits")
    here = tmp_path / "here"
    other = load("synthetic-images:50", here)
    (here / "digits.json").write_text((here / f"{other.info.name}.json").read_text())
    with pytest.raises(DataError, match="not the one the run was started with"):
        shipping.ensure(here, "digits", folder, None)
    place = shipping.ensure(here, "digits", folder, lambda: parcel)
    assert place != here
    assert load("digits", place).folder.name == folder


def test_two_processes_may_unpack_at_once(data_root: Path, tmp_path: Path) -> None:
    load("digits", data_root)
    parcel = shipping.pack(data_root, "digits")
    shipping.unpack(tmp_path, "digits", parcel)
    shipping.unpack(tmp_path, "digits", parcel)
    assert load("digits", tmp_path).info.train == 1438


def test_a_path_that_cannot_be_written_to_is_replaced(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = load("digits", data_root).folder.name
    monkeypatch.setattr(shipping.tempfile, "gettempdir", lambda: str(tmp_path))
    parcel = shipping.pack(data_root, "digits")
    place = shipping.ensure(Path("/proc/nowhere"), "digits", folder, lambda: parcel)
    assert place.is_relative_to(tmp_path)
    assert load("digits", place).info.train == 1438


# ---- nobody else's data ----------------------------------------------------------------------


def loosen(place: Path) -> None:
    place.mkdir()
    place.chmod(0o770)


def redirect(place: Path) -> None:
    elsewhere = place.parent / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    place.symlink_to(elsewhere)


@pytest.mark.parametrize("plant", [loosen, redirect, Path.touch])
def test_a_temporary_folder_that_others_may_have_filled_is_refused(
    plant: Callable[[Path], None], data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = load("digits", data_root).folder.name
    plant(tmp_path / f"heterofl-ray-{os.geteuid()}")
    parcel = shipping.pack(data_root, "digits")
    with pytest.raises(DataError, match=f"heterofl-ray-{os.geteuid()} (is not yours|cannot hold)"):
        shipping.ensure(Path("/proc/nowhere"), "digits", folder, lambda: parcel)


def test_so_is_one_that_belongs_to_another_user(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they have put there looks like the data set that is wanted."""
    monkeypatch.setattr(shipping.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = load("digits", data_root).folder.name
    parcel = shipping.pack(data_root, "digits")
    other = os.geteuid() + 1
    theirs = tmp_path / f"heterofl-ray-{other}"
    theirs.mkdir(mode=0o700)
    shipping.unpack(theirs / folder, "digits", parcel)
    monkeypatch.setattr(shipping.os, "geteuid", lambda: other)
    with pytest.raises(DataError, match=r"not yours alone.* set TMPDIR"):
        shipping.ensure(Path("/proc/nowhere"), "digits", folder, lambda: parcel)


def test_what_is_put_among_temporary_files_is_its_owners_alone(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = load("digits", data_root).folder.name
    parcel = shipping.pack(data_root, "digits")
    before = os.umask(0)
    try:
        place = shipping.ensure(Path("/proc/nowhere"), "digits", folder, lambda: parcel)
    finally:
        os.umask(before)
    (own,) = tmp_path.iterdir()
    assert place.is_relative_to(own)
    assert stat.S_IMODE(own.stat().st_mode) == 0o700


def test_files_that_are_not_what_their_folder_says_are_refused(
    data_root: Path, tmp_path: Path
) -> None:
    load("digits", data_root)
    parcel = dict(shipping.pack(data_root, "digits"))
    parcel["train.arrow"] = np.array(parcel["train.arrow"])
    parcel["train.arrow"][-300] ^= 1
    with pytest.raises(DataError, match="'digits' arrived damaged: it is not digits-"):
        shipping.unpack(tmp_path, "digits", parcel)
    assert list(tmp_path.iterdir()) == []
