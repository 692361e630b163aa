"""How runs are told apart: the settings in which they differ, and the command that repeats one."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.presets import PRESETS
from heterofl_ray.reporting.runs import Run
from heterofl_ray.settings import describe

LONGEST = 60
"""Characters of a label; more would push the picture aside."""
_MOST_NAMED = 3
"""Settings in a label, where fewer tell the runs apart."""
_SPEAKING = {"data", "partition", "model", "method", "mix", "assignment"}
"""Settings whose values say what they are."""
_MOST_CHANGES = 12
"""A command line with more settings than this is worse to read than a file."""


def settings_of(config: ExperimentConfig) -> dict[str, Any]:
    """Every setting that decides the result, by its full name."""
    return {
        name: entry["default"] for name, entry in describe(config).items() if not entry["runtime"]
    }


def differing(runs: Sequence[Run]) -> list[str]:
    """Names of the settings that are not the same in all runs, in their usual order."""
    all_settings = [settings_of(run.config) for run in runs]
    return [
        name
        for name in all_settings[0]
        if any(settings[name] != all_settings[0][name] for settings in all_settings)
    ]


def labels(runs: Sequence[Run]) -> list[str]:
    """A short name for each run, of settings that differ; folders' names where none does."""
    names = _telling(runs)
    if not names:
        return _distinct([shortened(run.name) for run in runs])
    plain = _SPEAKING if len(names) > 1 else set(names)
    texts = []
    for run in runs:
        settings = settings_of(run.config)
        parts = [("" if name in plain else f"{name}=") + shown(settings[name]) for name in names]
        texts.append(shortened(", ".join(parts)))
    return _distinct(texts)


def _telling(runs: Sequence[Run]) -> list[str]:
    """The settings that differ; of many, as few as tell the runs apart."""
    names = differing(runs)
    if len(names) <= _MOST_NAMED:
        return names
    all_settings = [settings_of(run.config) for run in runs]

    def kinds(chosen: Sequence[str]) -> int:
        return len({repr([settings[name] for name in chosen]) for settings in all_settings})

    chosen: list[str] = []
    while kinds(chosen) < kinds(names):
        chosen.append(max(names, key=lambda name: kinds([*chosen, name])))
    return [name for name in names if name in chosen]


def label_title(runs: Sequence[Run]) -> str:
    """What stands above a list of labels: the setting's name where only one differs."""
    names = _telling(runs)
    return names[0] if len(names) == 1 else ""


def shown(value: Any) -> str:
    """A setting's value as ``--set`` takes it."""
    return value if isinstance(value, str) else json.dumps(value)


def shortened(text: str, longest: int = LONGEST) -> str:
    """Names that begin alike often end differently, so the middle is left out."""
    if len(text) <= longest:
        return text
    tail = (longest - 1) // 2
    return f"{text[: longest - 1 - tail]}…{text[-tail:]}"


def _distinct(texts: list[str]) -> list[str]:
    """The same texts, numbered where several are alike."""
    seen: dict[str, int] = {}
    result = []
    for text in texts:
        seen[text] = seen.get(text, 0) + 1
        result.append(f"{text} ({seen[text]})" if texts.count(text) > 1 else text)
    return result


def reproduce(run: Run) -> str:
    """The command that gives the same bytes again: the nearest preset and what differs from it."""
    wanted = settings_of(run.config)
    name, changed = min(
        ((name, _changed(make(), wanted)) for name, make in PRESETS.items()),
        key=lambda entry: len(entry[1]),
    )
    if {"rounds", "optimizer.milestones"} <= set(changed):
        # Fewer rounds drop later milestones by themselves.
        shorter = PRESETS[name]().override([f"rounds={run.config.rounds}"])
        if shorter.optimizer.milestones == run.config.optimizer.milestones:
            changed.remove("optimizer.milestones")
    if len(changed) > _MOST_CHANGES:
        return f"heterofl-ray run {shlex.quote(str(run.folder / 'config.yaml'))}"
    sets = [f"{changed_name}={shown(wanted[changed_name])}" for changed_name in changed]
    parts = [part for text in sets for part in ("--set", text)]
    return shlex.join(["heterofl-ray", "run", name, *parts])


def _changed(preset: ExperimentConfig, wanted: Mapping[str, Any]) -> list[str]:
    before = settings_of(preset)
    return [name for name, value in wanted.items() if value != before[name]]
