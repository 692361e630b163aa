"""Data sets on their way to a machine that does not have them: as bytes, once per machine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from heterofl_ray.data.info import read_info
from heterofl_ray.data.places import stored, stored_name
from heterofl_ray.data.store import fingerprint, scratch_folder, write_atomically
from heterofl_ray.errors import DataError
from heterofl_ray.private_folders import make_private

Shipment = Mapping[str, "np.ndarray[Any, Any]"]
"""File name -> its bytes; 'NAME.json' says what they are."""


def pack(root: Path, name: str) -> Shipment:
    """The files of a stored data set; their bytes are mapped, not read."""
    _, folder = read_info(root, stored_name(name))
    note = root / f"{stored_name(name)}.json"
    return {
        path.name: np.memmap(path, dtype=np.uint8, mode="r")
        for path in (note, *sorted(folder.iterdir()))
    }


def ensure(root: Path, name: str, folder: str, shipment: Callable[[], Shipment] | None) -> Path:
    """A place on this machine that holds the data set: ``root``, or where it is put now.

    ``folder`` names the content that is wanted; another data set of the same name will not do.
    ``shipment`` is asked for only if it is needed. Several processes may do this at once.
    """
    if _holds(root, name, folder):
        return root
    own = _private_folder() / folder
    if _holds(own, name, folder):
        return own
    if shipment is None:
        raise DataError(f"data set {name!r} in {root} is not the one the run was started with")
    place = own if stored_name(name) in stored(root) else root
    try:
        unpack(place, name, shipment())
    except DataError:  # the driver's path cannot be written to here
        place = own
        unpack(place, name, shipment())
    return place


def _private_folder() -> Path:
    """This user's folder among the temporary files, where nobody else can have put anything."""
    place = Path(tempfile.gettempdir()) / f"heterofl-ray-{os.geteuid()}"
    try:
        private = make_private(place)
    except OSError as error:
        raise DataError(f"{place} cannot hold data sets: {error.strerror}") from None
    if not private:
        raise DataError(
            f"{place} is not yours alone, so its data sets cannot be believed: "
            "remove it, or set TMPDIR to a folder of yours"
        )
    return place


def _holds(root: Path, name: str, folder: str) -> bool:
    return (
        stored_name(name) in stored(root) and read_info(root, stored_name(name))[1].name == folder
    )


def unpack(root: Path, name: str, shipment: Shipment) -> None:
    """Put shipped files in place, all or nothing; they must be what their folder's name says."""
    note = f"{stored_name(name)}.json"
    text = shipment[note].tobytes().decode()
    with scratch_folder(root) as scratch:
        for file, content in shipment.items():
            if file != note:
                content.tofile(scratch / Path(file).name)
        (scratch / note).write_text(text, encoding="utf-8")
        _, folder = read_info(scratch, stored_name(name))
        (scratch / note).unlink()
        if not folder.name.endswith(f"-{fingerprint(scratch)[0]}"):
            raise DataError(f"data set {name!r} arrived damaged: it is not {folder.name}")
        try:
            scratch.rename(root / folder.name)
        except OSError:  # another process of this machine was first
            if not (root / folder.name).is_dir():
                raise
        write_atomically(root / note, text)
