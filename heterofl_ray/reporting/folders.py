"""Which folders are runs. Nothing heavy is imported, so a wrong folder is named at once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from heterofl_ray.errors import DataError

_COPIES = ("mlartifacts", "mlruns")
_TRACES = ("history.parquet", "result.json", "checkpoints")
"""What a run leaves next to its config.yaml, the earliest after its first round."""


def is_sweep(folder: Path) -> bool:
    return (folder / "sweep.yaml").is_file()


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """The runs that are named, and all runs within the folders that are named; each once."""
    found: dict[Path, Path] = {}
    for path in paths:
        for run in _runs_at(path):
            found.setdefault(run.resolve(), run)
    if not found:
        raise DataError("no run is named: give a run's folder, or a folder of runs")
    return list(found.values())


def _runs_at(path: Path) -> list[Path]:
    if not path.exists():
        raise DataError(f"{path}: there is no such folder")
    if not path.is_dir():
        raise DataError(f"{path} is a file; name the run's folder")
    if (path / "config.yaml").is_file():
        return [path]
    within = _runs_within(path)
    if not within:
        raise DataError(f"{path} is neither the folder of a run nor does it hold one")
    return within


def _runs_within(folder: Path) -> list[Path]:
    """Runs at any depth, but not inside runs, nor the copies that MLflow keeps."""
    found = []
    for place, inner, files in os.walk(folder):
        if "config.yaml" in files and _is_run(Path(place)):
            found.append(Path(place))
            inner.clear()
        inner[:] = [name for name in inner if name not in _COPIES]
    return sorted(found)


def _is_run(folder: Path) -> bool:
    return any((folder / name).exists() for name in _TRACES)
