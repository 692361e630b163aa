"""The front of a sweep: trials that no other beats in every objective, each as a job file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heterofl_ray.tuning.plan import SweepPlan

BEST = "best"


def front_of(records: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The front's trials, the best of the first objective first."""
    first = records["objectives"][0]
    chosen = [trial for trial in records["trials"] if trial["number"] in records["front"]]
    return sorted(chosen, key=lambda t: t["values"][first["name"]], reverse=first["larger"])


def figure(value: Any) -> str:
    """A setting or a result, short enough for a table."""
    if not isinstance(value, float):
        return str(value)
    for least, by, unit in ((1e9, 1e9, " G"), (1e6, 1e6, " M"), (1e4, 1e3, " K")):
        if abs(value) >= least:
            return f"{value / by:.4g}{unit}"
    return f"{value:.4g}"


def counts(records: Mapping[str, Any]) -> dict[str, int]:
    """Trials by how they ended."""
    found: dict[str, int] = {}
    for trial in records["trials"]:
        found[trial["state"]] = found.get(trial["state"], 0) + 1
    return found


def write_jobs(
    folder: Path, plan: SweepPlan, front: Sequence[Mapping[str, Any]]
) -> dict[int, list[str]]:
    """A YAML file for each run of the front, with all its settings; paths by trial."""
    place = folder / BEST
    place.mkdir(exist_ok=True)
    for old in place.glob("trial-*.yaml"):
        old.unlink()
    written: dict[int, list[str]] = {}
    for trial in front:
        number, seeds = trial["number"], len(trial["by_seed"])
        for seed, score in enumerate(trial["by_seed"]):
            ending = f"-seed-{plan.base.seed + seed}" if seeds > 1 else ""
            path = place / f"trial-{number:03d}{ending}.yaml"
            head = f"# trial {number} of {folder.name}: score {score!r}\n"
            head += f"# heterofl-ray run {path}\n"
            text = plan.point(trial["settings"], seed).to_yaml()
            path.write_text(head + text, encoding="utf-8")
            written.setdefault(number, []).append(str(path))
    return written
