"""Where data sets lie, and what they may be called. Importing this does not import torch."""

from __future__ import annotations

import os
import re
from pathlib import Path

from heterofl_ray.errors import DataError, shown

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FOLDER = re.compile(rf"{_NAME.pattern}-[0-9a-f]{{16}}")


def data_dir(path: str | os.PathLike[str] | None = None) -> Path:
    """The folder of data sets: as given, else HETEROFL_DATA_DIR, else in the user's cache."""
    chosen = path or os.environ.get("HETEROFL_DATA_DIR") or "~/.cache/heterofl-ray"
    return Path(chosen).expanduser().absolute()


def raw_dir(root: Path, name: str) -> Path:
    """Where the files lie that a known data set is converted from."""
    check_name(name)
    return root / "raw" / name


def stored(root: Path) -> list[str]:
    """Names of the data sets in this folder."""
    return sorted(path.stem for path in root.glob("*.json")) if root.is_dir() else []


def stored_name(name: str) -> str:
    """The file name of a data set: 'synthetic-text:5000' is kept as 'synthetic-text-5000'."""
    return name.replace(":", "-")


def check_name(name: str) -> None:
    """Names become file names, so they may not lead anywhere else."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise DataError(
            f"data set name {shown(name)} is not valid: "
            "letters, digits, '.', '_' and '-', at most 64"
        )


def check_folder(folder: object) -> str:
    """The folder of a data set's files: its name, and a digest of its content."""
    if not isinstance(folder, str) or not _FOLDER.fullmatch(folder):
        raise DataError(f"{shown(folder)} is no data set's folder")
    return folder
