"""Checkpoints: what a run goes on from after it was stopped, whatever stopped it.

A checkpoint is a folder that appears by one rename after its files are on disk: the server's state
as safetensors, a file for each client that keeps something, and a manifest with the history so far
and the files' checksums. No pickle. A damaged one is passed over with a warning and the one before
it is used. A client's file that the checkpoint before has already is the same file (a hard link):
what is written in a round is what changed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from heterofl_ray import state
from heterofl_ray.errors import DataError, shown
from heterofl_ray.plain_files import parse_json, read_json
from heterofl_ray.state import ClientState

_FORMAT = 1
_PARAMETERS = "parameters.safetensors"
_MANIFEST = "manifest.json"
_CLIENT_FILE = re.compile(r"client-([0-9]{6,9})-([0-9]{6,9})\.safetensors")
_DIGEST = re.compile("[0-9a-f]{64}")
_MOST_ROUNDS = 10**9


@dataclass(frozen=True)
class Progress:
    """Where a run stands, apart from its parameters."""

    round_number: int
    experiment: str
    """Names the settings and the data it belongs to."""
    rows: Sequence[Mapping[str, Any]]
    """The history up to this round."""
    goodness: float | None = None
    """The global score after this round, larger being better; None: not tested."""


@dataclass(frozen=True)
class Checkpoint:
    progress: Progress
    parameters: Mapping[str, Tensor]
    """The server's state."""
    clients: Mapping[int, ClientState]


def _as_it_is(tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    return tensors


def write(
    parameters: Mapping[str, Tensor],
    folder: Path,
    progress: Progress,
    keep: int,
    best: bool,
    clients: Mapping[int, ClientState] | None = None,
    fetch: Callable[[Any], Mapping[str, Tensor]] = _as_it_is,
) -> None:
    """Put a checkpoint into ``folder``, all or nothing, then drop those no longer wanted.

    ``fetch`` gives the tensors of those ``clients`` that have changed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / _place_name(progress.round_number)
    scratch = Path(tempfile.mkdtemp(prefix=".partial-", dir=folder))
    try:
        state.save(scratch / _PARAMETERS, parameters)
        files = {_PARAMETERS: _file_digest(scratch / _PARAMETERS)}
        known = _client_files(folder, place)
        for client, kept in (clients or {}).items():
            name = _client_file(client, kept.round_number)
            if name not in known or not _linked(known[name][0], scratch / name):
                state.save(scratch / name, fetch(kept.tensors))
                _flush(scratch / name)
                known[name] = scratch / name, _file_digest(scratch / name)
            files[name] = known[name][1]
        manifest = {
            "format": _FORMAT,
            "round": progress.round_number,
            "experiment": progress.experiment,
            "goodness": progress.goodness,
            "rows": list(progress.rows),
            "files": files,
        }
        text = json.dumps(manifest)
        (scratch / _MANIFEST).write_text(
            json.dumps({"sha256": _digest(text.encode()), "manifest": text}), encoding="utf-8"
        )
        for name in (_PARAMETERS, _MANIFEST):
            _flush(scratch / name)
        if place.exists():  # the same round again, after a resume: the same bytes
            shutil.rmtree(place)
        scratch.rename(place)
        _flush(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    _prune(folder, keep, best)


def newest(folder: Path) -> Checkpoint:
    """The newest checkpoint that is whole."""
    places = _places(folder)
    for place in reversed(places):
        try:
            files = _read_manifest(place)["files"]
            parameters = _read(place / _PARAMETERS, files[_PARAMETERS])
            return Checkpoint(_read_progress(place), parameters, _read_clients(place, files))
        except DataError as error:
            warnings.warn(f"{error}; the checkpoint before it is used", stacklevel=2)
    if places:
        raise DataError(f"{folder}: every checkpoint is damaged; nothing to resume from")
    raise DataError(f"{folder}: no checkpoint yet; start the run anew")


def rows(folder: Path) -> Sequence[Mapping[str, Any]]:
    """The history up to the newest checkpoint, without reading parameters; empty: none yet."""
    for place in reversed(_places(folder)):
        try:
            return _read_progress(place).rows
        except DataError:
            continue
    return []


def _places(folder: Path) -> list[Path]:
    return sorted(folder.glob("round-*")) if folder.is_dir() else []


def _read_manifest(place: Path) -> dict[str, Any]:
    """What it says, with nothing in it that is not as `write` has it."""
    path = place / _MANIFEST
    try:
        outer = read_json(path)
        text = outer["manifest"]
        if _digest(text.encode()) != outer["sha256"]:
            raise ValueError("its checksum differs")
        manifest: dict[str, Any] = parse_json(text, path)
        if manifest["format"] != _FORMAT:
            raise ValueError(f"format {shown(manifest['format'])} is not known here")
        for name, holds in _CHECKS.items():
            if not holds(manifest[name]):
                raise ValueError(f"{name} is {shown(manifest[name])}")
        if place.name != _place_name(manifest["round"]):
            raise ValueError(f"it is of round {manifest['round']}")
        return manifest
    except KeyError as error:
        raise DataError(f"{path} is damaged: it lacks {error}") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is damaged: {error}") from None


def _is_round(value: Any) -> bool:
    return type(value) is int and 0 < value < _MOST_ROUNDS


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) or value is None


def _is_row(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and _is_round(value.get("round"))
        and all(_is_number(held) for held in value.values())
    )


def _are_files(value: Any) -> bool:
    """Names that lead nowhere else, each with a checksum."""
    return (
        isinstance(value, dict)
        and _PARAMETERS in value
        and all(name == _PARAMETERS or _CLIENT_FILE.fullmatch(name) for name in value)
        and all(isinstance(sum_, str) and _DIGEST.fullmatch(sum_) for sum_ in value.values())
    )


_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "round": _is_round,
    "experiment": lambda value: isinstance(value, str),
    "goodness": _is_number,
    "rows": lambda value: isinstance(value, list) and all(map(_is_row, value)),
    "files": _are_files,
}


def _place_name(round_number: int) -> str:
    return f"round-{round_number:06d}"


def _read_progress(place: Path) -> Progress:
    manifest = _read_manifest(place)
    return Progress(
        manifest["round"], manifest["experiment"], manifest["rows"], manifest["goodness"]
    )


def _read(path: Path, expected: str) -> Mapping[str, Tensor]:
    try:
        found = _file_digest(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    if found != expected:
        raise DataError(f"{path} is damaged: its checksum differs")
    return state.load(path)


# ---- what clients keep ----------------------------------------------------------------------


def _client_file(client: int, round_number: int) -> str:
    """Named by its version: within a run the same name is the same bytes."""
    return f"client-{client:06d}-{round_number:06d}.safetensors"


def _read_clients(place: Path, files: Mapping[str, str]) -> dict[int, ClientState]:
    clients = {}
    for name, digest in files.items():
        if named := _CLIENT_FILE.fullmatch(name):
            client, round_number = map(int, named.groups())
            clients[client] = ClientState(round_number, _read(place / name, digest))
    return clients


def _client_files(folder: Path, new: Path) -> dict[str, tuple[Path, str]]:
    """Where each client's file is that the checkpoint before ``new`` has, and its checksum.

    Not those of a later one: a run that went on from an older round did not read them.
    """
    for place in reversed([place for place in _places(folder) if place < new]):
        try:
            files = _read_manifest(place)["files"]
        except DataError:
            continue
        return {name: (place / name, digest) for name, digest in files.items()}
    return {}


def _linked(old: Path, new: Path) -> bool:
    """Give a file a second name; some file systems cannot."""
    try:
        os.link(old, new)
    except OSError:
        return False
    return True


def _prune(folder: Path, keep: int, best: bool) -> None:
    """Keep the newest, and the best one where asked."""
    places = _places(folder)
    wanted = set(places[-keep:])
    if best:
        wanted |= set(_best(places))
    for place in places:
        if place not in wanted:
            shutil.rmtree(place, ignore_errors=True)


def _best(places: Sequence[Path]) -> list[Path]:
    scored = []
    for place in places:
        try:
            goodness = _read_manifest(place)["goodness"]
        except DataError:
            continue
        if goodness is not None and math.isfinite(goodness):
            scored.append((goodness, place))
    return [max(scored)[1]] if scored else []


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _file_digest(path: Path) -> str:
    """Of a file that is read piece by piece, and that is one: a pipe would never end."""
    if not path.is_file():
        raise OSError(f"{path.name} is not a file")
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    """Have the operating system put a file or a folder's entries on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
