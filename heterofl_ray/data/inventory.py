"""What data sets there are and what is known about each. Importing this does not import torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from heterofl_ray.data.catalog import SOURCES, Source
from heterofl_ray.data.info import DataInfo, read_info
from heterofl_ray.data.places import raw_dir, stored
from heterofl_ray.errors import DataError


def inventory(root: Path) -> list[dict[str, Any]]:
    """Every known and every stored data set: its name, task, where it stands, what it is."""
    there = stored(root)
    rows = []
    for name, source in SOURCES.items():
        state = "ready" if name in there else _state(name, source, root)
        rows.append({"name": name, "task": source.task, "state": state, "about": source.about})
    for name in there:
        if name not in SOURCES:
            rows.append({"name": name, **_own(root, name)})
    return rows


def summary(info: DataInfo) -> dict[str, Any]:
    """The contract of ``data info --json``."""
    outputs: dict[str, Any] = {}
    if info.kind != "images":
        outputs["vocabulary"] = info.vocabulary
    if info.kind != "text":
        outputs |= {"classes": len(info.classes), "class_names": list(info.classes)}
    if info.kind == "sequences":
        outputs |= {"target": info.target, "metric": info.metric}
    return {
        "name": info.name,
        "train": info.train,
        "test": info.test,
        **outputs,
        "shape": list(info.shape),
        "bytes": info.bytes,
        "task": info.kind,
        "clients": info.clients,
        "super_classes": len(info.coarse),
        "origin": info.origin,
    }


def _state(name: str, source: Source, root: Path) -> str:
    if source.kind != "files":
        return source.kind
    folder = raw_dir(root, name)
    there = folder.is_dir() and any(folder.iterdir())
    return "files to convert" if there else "needs files"


def _own(root: Path, name: str) -> dict[str, str]:
    try:
        info, _ = read_info(root, name)
    except DataError as error:
        return {"task": "", "state": "damaged", "about": str(error)}
    held = f"{info.vocabulary} words" if info.kind == "text" else f"{len(info.classes)} classes"
    if info.target == "number":
        held = "numbers"
    about = f"{held}, {info.train:,} + {info.test:,}, from {info.origin}"
    return {"task": info.kind, "state": "ready", "about": about}
