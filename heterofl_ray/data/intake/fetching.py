"""Downloading the files of a known data set. Importing this does not import torch."""

from __future__ import annotations

import hashlib
import http.client
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from heterofl_ray.data.catalog import SOURCES, Remote
from heterofl_ray.data.intake.showing import Advance, download_bar
from heterofl_ray.data.places import raw_dir
from heterofl_ray.errors import ConfigError, DataError

_PATIENCE = 30  # seconds without an answer
_BLOCK = 1 << 18


def fetch(name: str, root: Path) -> list[Path]:
    """Put a data set's published files into its raw folder; those that are there are kept.

    A file appears only when it is whole and its checksum is right, so trying again is always safe.
    """
    if name not in SOURCES:
        raise ConfigError.unknown("data", name, SOURCES)
    source, folder = SOURCES[name], raw_dir(root, name)
    if source.kind != "files":
        raise DataError(f"{name} is {source.kind}: there is nothing to download")
    if not source.remote:
        raise DataError(
            f"{name} is published nowhere as ready files; put {source.files} into {folder}"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder} cannot be written to: {error.strerror}") from None
    for remote in source.remote:
        target = folder / remote.name
        if not (target.is_file() and _md5(target) == remote.md5):
            _fetch_one(remote, target, name)
    return [folder / remote.name for remote in source.remote]


def _fetch_one(remote: Remote, target: Path, name: str) -> None:
    """Try each address; the first whole file with the right checksum is taken."""
    reasons = []
    for url in remote.urls:
        try:
            with _partial(target.parent) as partial, download_bar(remote.name) as advance:
                with partial.open("wb") as file:
                    _download(url, file, advance)
                if _md5(partial) == remote.md5:
                    partial.replace(target)
                    return
            reasons.append(f"{url}: not the published file, its md5 differs")
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            reasons.append(f"{url}: {reason or type(error).__name__}")
    failed = f"{remote.name} cannot be downloaded ({'; '.join(reasons)})"
    if target.is_file():
        raise DataError(
            f"{failed}; the one in {target.parent} is not as published, its md5 differs: "
            f"if you trust it, 'heterofl-ray data import {target.parent} --name {name}' takes it"
        )
    wanted = ", ".join(other.name for other in SOURCES[name].remote)
    raise DataError(f"{failed}; put {wanted} into {target.parent} yourself, or try again")


def _download(url: str, file: IO[bytes], advance: Advance) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "heterofl-ray"})
    with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
        length = answer.headers.get("Content-Length")
        total = int(length) if length else None
        done = 0
        while block := answer.read(_BLOCK):
            file.write(block)
            done += len(block)
            advance(done, total)


@contextmanager
def _partial(folder: Path) -> Iterator[Path]:
    """A file that is gone afterwards, unless it was renamed."""
    with tempfile.NamedTemporaryFile(prefix=".partial-", dir=folder, delete=False) as file:
        path = Path(file.name)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
