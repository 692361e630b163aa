"""A run in MLflow: made once, and told each thing once however often it is sent.

That rests on three things: the run carries its journal's key as a tag and is looked for before it
is made; a metric that comes again with the same name, step, time and value is the same row in
MLflow's database; parameters, tags, data sets and files are set, not added.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from mlflow.data.schema import TensorDatasetSchema
from mlflow.data.sources import LocalArtifactDatasetSource  # type: ignore[attr-defined]
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from mlflow.types import Schema, TensorSpec

from heterofl_ray.errors import DataError
from heterofl_ray.tracking.destination import beside, is_server, place_of
from heterofl_ray.tracking.journal import Event

KEY = "heterofl.key"
PARENT = "mlflow.parentRunId"
MOST_METRICS = 1000
"""In one request, by MLflow's rules."""
_MOST_PARAMS = 100
_LONGEST_TAG = 5000
_PROFILE = ("kind", "train", "test", "outputs", "bytes", "origin", "partition", "clients")


class MlflowRun:
    """One run, found or made when this is."""

    def __init__(self, uri: str, folder: Path, start: Event) -> None:
        self.client = MlflowClient(tracking_uri=uri)
        self.folder = folder
        self.experiment_id = self._experiment(uri, start["experiment"])
        self.run_id = self._find(start["key"]) or self._make(start)
        self.is_trial = "parent" in start
        self.place = place_of(uri, self.experiment_id, self.run_id)

    def _experiment(self, uri: str, name: str) -> str:
        found = self.client.get_experiment_by_name(name)
        if found is None:
            # A server says itself where files go; a database alone does not.
            files = (beside(self.folder) / "mlartifacts").as_uri()
            try:
                location = None if is_server(uri) else files
                return str(self.client.create_experiment(name, location))
            except MlflowException:  # another run's sender was faster
                found = self.client.get_experiment_by_name(name)
                if found is None:
                    raise
        return str(found.experiment_id)

    def _find(self, key: str) -> str:
        """The run with this journal's key; of two, made by a server that was slow, one goes."""
        found = self.client.search_runs(
            [self.experiment_id], f"tags.`{KEY}` = '{key}'", order_by=["attribute.run_id"]
        )
        for surplus in found[1:]:
            self.client.delete_run(surplus.info.run_id)
        return found[0].info.run_id if found else ""

    def _make(self, start: Event) -> str:
        tags = {**start["tags"], KEY: start["key"]}
        if "parent" in start:
            tags[PARENT] = self._find(start["parent"])
            if not tags[PARENT]:
                raise DataError(f"{self.folder} is a trial whose sweep is not in MLflow yet")
        run = self.client.create_run(
            self.experiment_id, start_time=start["time"], tags=tags, run_name=start["name"]
        )
        return str(run.info.run_id)

    # ---- events -----------------------------------------------------------------------------

    def start(self, event: Event) -> None:
        params = [Param(name, value) for name, value in event["params"].items()]
        for first in range(0, len(params), _MOST_PARAMS):
            self.client.log_batch(self.run_id, params=params[first : first + _MOST_PARAMS])
        if "data" not in event:
            return
        dataset = DatasetInput(_dataset(event["data"]), [InputTag("mlflow.data.context", "train")])
        self.client.log_inputs(self.run_id, [dataset])

    def metrics(self, events: Sequence[Event]) -> None:
        metrics = [
            Metric(name, value, event["time"], event["step"])
            for event in events
            for name, value in event["values"].items()
        ]
        for first in range(0, len(metrics), MOST_METRICS):
            self.client.log_batch(self.run_id, metrics[first : first + MOST_METRICS])

    def resumed(self, event: Event) -> None:
        what = event.get("what", "round")
        tag = RunTag(f"resumed_after_{what}", str(event[what]))
        self.client.log_batch(self.run_id, tags=[tag])
        self.client.update_run(self.run_id, status="RUNNING")

    def trial(self, run_id: str, trial: Event, when: int) -> None:
        """What a sweep knows of one of its trials, whose first run is ``run_id``."""
        figures = {f"objective_{name}": v for name, v in (trial["values"] or {}).items()}
        figures |= {f"objective_{name}_std": v for name, v in trial.get("spread", {}).items()}
        tags = {"sweep.trial": str(trial["number"]), "sweep.state": trial["state"]}
        tags |= {f"sweep.{name}": str(trial[name]) for name in ("why", "error") if name in trial}
        self.client.log_batch(
            run_id,
            metrics=[Metric(name, value, when, 0) for name, value in figures.items()],
            tags=[RunTag(name, text[:_LONGEST_TAG]) for name, text in tags.items()],
        )

    def end(self, status: str, when: int) -> None:
        self.client.set_terminated(self.run_id, status, when)


def _dataset(data: dict[str, Any]) -> Dataset:
    """The data set by the digest of its content; its source is the folder of its files."""
    source = LocalArtifactDatasetSource(Path(data["folder"]).as_uri())
    schema = None
    if data["shape"]:
        features = Schema([TensorSpec(np.dtype(data["dtype"]), (-1, *data["shape"]))])
        schema = json.dumps(TensorDatasetSchema(features).to_dict())
    profile = {name: data[name] for name in _PROFILE}
    return Dataset(
        name=data["name"],
        digest=data["digest"],
        source_type=source._get_source_type(),
        source=source.to_json(),
        schema=schema,
        profile=json.dumps(profile),
    )
