"""A sweep's own record: a run in MLflow of which its trials are nested runs.

Trials write journals of their own, in their runs' folders; the sweep's sender sends those too. So
one process of low priority tells MLflow everything, however many trials there are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.tracking import events
from heterofl_ray.tracking.destination import chosen_uri, full_uri, without_password
from heterofl_ray.tracking.journal import Event
from heterofl_ray.tracking.recorder import Teller


class SweepRecorder(Teller):
    """The driver's side. Trials are dicts as a sweep's ``trials.json`` has them."""

    def __init__(self, config: ExperimentConfig, folder: Path, params: Mapping[str, str]) -> None:
        super().__init__(config.tracking, folder)
        self._of = (config, folder, params)
        self._key = ""
        self._told: set[int] = set()

    def _start(self) -> Event:
        event = events.start_sweep(*self._of)
        self._key = event["key"]
        return event

    def _open(self) -> list[Event]:
        known = super()._open()
        if known:
            self._key = known[0].get("key", "")
            self._told = {e["trial"]["number"] for e in known if e.get("kind") == "trial"}
            self._append(events.resumed(len(self._told), "trial"))
        return known

    def overrides(self) -> list[str]:
        """What its trials' settings must be, so that they are nested in it."""
        if not self.is_on:
            return ["tracking.mlflow=false"]
        uri = chosen_uri(self._settings) or full_uri("", self._folder)
        return [
            "tracking.mlflow=true",
            f"tracking.uri={without_password(uri)}",
            f"tracking.parent={self._key}",
        ]

    def known(self, trials: Sequence[Mapping[str, Any]], records: Mapping[str, Any]) -> None:
        """Tell of trials that ended just before the sweep was killed."""
        for trial in trials:
            self.trial(trial, records)

    def run_done(self) -> None:
        """A run of a comparison has ended; its own journal tells the rest."""
        self._have_sender()

    def trial(self, trial: Mapping[str, Any], records: Mapping[str, Any]) -> None:
        """A trial has ended; each is told once."""
        if trial["number"] not in self._told:
            self._told.add(trial["number"])
            self._append(events.trial(trial, _figures(records)))
            self._have_sender()


def _figures(records: Mapping[str, Any]) -> dict[str, float]:
    """How the sweep is doing: what is on its front, and the best of each objective."""
    done = [trial["values"] for trial in records["trials"] if trial["values"]]
    found = {"trials_complete": float(len(done)), "front": float(len(records["front"]))}
    for objective in records["objectives"]:
        values = [values[objective["name"]] for values in done]
        best = (max if objective["larger"] else min)(values, default=math.nan)
        if math.isfinite(best):
            found[f"best_{objective['name']}"] = best
    return found
