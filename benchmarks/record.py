"""Results on disk: for each machine one JSON and one Markdown file, theme by theme."""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.measure import Figure, shown

RESULTS = Path(__file__).parent / "results"
_PACKAGES = ("torch", "numpy", "pyarrow", "ray", "torchvision")


def record(theme: str, about: str, figures: Sequence[Figure], into: Path = RESULTS) -> None:
    """Keep a theme's figures in place of those that this machine had before."""
    into.mkdir(exist_ok=True)
    path = place(into)
    kept = read(into)
    kept[theme] = {
        "about": about,
        "taken": surroundings(),
        "ratios": {figure.name: _entry(figure) for figure in figures},
    }
    path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(_page(kept), encoding="utf-8")


def read(results: Path = RESULTS) -> dict[str, Any]:
    """What is kept of this machine, by theme."""
    path = place(results)
    kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return kept


def place(results: Path = RESULTS) -> Path:
    """This machine's file."""
    name = re.sub(r"[^a-z0-9.]+", "-", machine().lower().replace("(r)", "")).strip("-")
    return results / f"{name}.json"


def machine() -> str:
    return f"{_cpu()}, {os.cpu_count()} cores"


def surroundings() -> dict[str, str]:
    """What figures depend on."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": _commit(),
        "cpu": machine(),
        "python": platform.python_version(),
        **{name: version(name) for name in _PACKAGES},
    }


def _cpu() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _commit() -> str:
    """The checkout's commit; one with changes since, other than of results, is marked."""
    try:
        commit = _git("rev-parse", "--short", "HEAD")
        changed = _git("status", "--porcelain", "-uno", "--", ":/", f":(exclude){RESULTS}")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{commit}-dirty" if changed else commit


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(RESULTS.parent), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _entry(figure: Figure) -> dict[str, Any]:
    return {
        "about": figure.about,
        **figure.to_dict(),
        "repeats": list(figure.values),
        "bound": figure.bound,
        "holds": figure.holds,
    }


def _page(kept: Mapping[str, Any]) -> str:
    lines = ["# Speed", ""]
    for theme, part in kept.items():
        lines += [
            f"## {theme}",
            "",
            f"{part['about']}.",
            "",
            "| ratio | of what | median | low to high | repeats | bound | holds |",
            "|---|---|---|---|---|---|---|",
            *(_row(name, entry) for name, entry in part["ratios"].items()),
            "",
            ", ".join(f"{name}: {value}" for name, value in part["taken"].items()) + ".",
            "",
        ]
    return "\n".join(lines)


def _row(name: str, entry: Mapping[str, Any]) -> str:
    holds = {True: "yes", False: "no"}[entry["holds"]] if entry["bound"] else ""
    return (
        f"| {name} | {entry['about']} | {shown(entry['median'])} | "
        f"{shown(entry['low'])} to {shown(entry['high'])} | {len(entry['repeats'])} | "
        f"{entry['bound']} | {holds} |"
    )
