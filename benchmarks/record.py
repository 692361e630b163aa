"""Results on disk: one JSON and one Markdown file for each theme, with what they were taken on."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from benchmarks.measure import Figure

RESULTS = Path(__file__).parent / "results"
_PACKAGES = ("torch", "numpy", "pyarrow", "ray", "torchvision")


def record(theme: str, about: str, figures: Sequence[Figure]) -> None:
    """Keep the figures of a full run in place of those of the last one."""
    RESULTS.mkdir(exist_ok=True)
    machine = surroundings()
    values = {
        "theme": theme,
        "machine": machine,
        "ratios": {figure.name: figure.to_dict() for figure in figures},
        "repeats": {figure.name: list(figure.values) for figure in figures},
    }
    (RESULTS / f"{theme}.json").write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    (RESULTS / f"{theme}.md").write_text(_page(theme, about, figures, machine), encoding="utf-8")


def surroundings() -> dict[str, str]:
    """The machine and the versions that figures depend on."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "cpu": f"{_cpu()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        **{name: version(name) for name in _PACKAGES},
    }


def _cpu() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _page(theme: str, about: str, figures: Sequence[Figure], machine: dict[str, str]) -> str:
    rows = [
        f"| {f.name} | {f.about} | {f.median:.3g} | {min(f.values):.3g} to {max(f.values):.3g} | "
        f"{len(f.values)} | {f.bound} | {'yes' if f.holds else 'no'} |"
        for f in figures
    ]
    return "\n".join(
        [
            f"# {theme}",
            "",
            f"{about}.",
            "",
            "| ratio | of what | median | low to high | repeats | bound | holds |",
            "|---|---|---|---|---|---|---|",
            *rows,
            "",
            ", ".join(f"{name}: {value}" for name, value in machine.items()) + ".",
            "",
        ]
    )
