"""A whole run with its own sender: what MLflow has of it, and that its model answers elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import mlflow
import pytest
import safetensors.torch
import torch

from heterofl_ray import run
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.progress import Silent
from heterofl_ray.result import RunResult
from heterofl_ray.runner import resume
from heterofl_ray.simulation import RoundRecord
from heterofl_ray.tracking.history import Row

from .conftest import predict_elsewhere
from .test_sender import points, runs

pytestmark = pytest.mark.slow

PATIENT = "tracking.wait=300"
"""Senders are niced, and tests that run beside these are not."""


class Said(Silent):
    """Keeps what a run says; fails where asked."""

    def __init__(self, fail_at: int = 0) -> None:
        self.lines: list[str] = []
        self.fail_at = fail_at

    def say(self, text: str) -> None:
        self.lines.append(text)

    def update(self, record: RoundRecord, row: Row) -> None:
        if record.round_number == self.fail_at:
            raise RuntimeError("broken")


@pytest.fixture(autouse=True)
def _on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HETEROFL_MLFLOW", "1")


def test_a_run_that_failed_and_was_resumed_is_one_run_and_its_model_predicts(
    tiny: ExperimentConfig, root: Path
) -> None:
    config = tiny.override(["rounds=4", "checkpoint.every=2", f"tracking.root={root}", PATIENT])
    with pytest.raises(RuntimeError):
        run(config, progress=Said(fail_at=3))
    (folder,) = (path.parent for path in root.glob("*/config.yaml"))
    first = json.loads((folder / "tracking" / "journal.jsonl").read_text().splitlines()[3])
    assert first["step"] == 3
    said = Said()
    result = resume(folder, progress=said)
    (found,) = runs(folder)
    run_id = found.info.run_id
    assert said.lines[-1].startswith(f"MLflow: run {run_id} ")
    assert found.info.status == "FINISHED"

    kept = points(folder)
    for name in result.history.column_names:
        if name in ("round", "loss_a", "loss_c"):
            continue
        known = [
            (row["round"], row[name]) for row in result.history.to_pylist() if row[name] is not None
        ]
        assert [step for step, _, _ in kept[name]] == [step for step, _ in known], name
        if not name.startswith(("seconds", "worker")):  # times differ when a round is done again
            assert [value for _, value, _ in kept[name]] == [value for _, value in known], name
    assert kept["seconds"][2][1] == first["values"]["seconds"]
    assert len(kept["system/cpu_utilization_percentage"]) >= 2

    model = RunResult.open(folder).global_model()
    example = safetensors.torch.load_file(folder / "tracking" / "example.safetensors")["inputs"]
    with torch.no_grad():
        (answer,) = predict_elsewhere(f"runs:/{run_id}/model", uri=f"sqlite:///{root}/mlflow.db")
        assert torch.equal(answer, model(example))

    store = mlflow.MlflowClient(f"sqlite:///{root}/mlflow.db")
    assert len(found.outputs.model_outputs) == 1
    there = {file.path for file in store.list_artifacts(run_id)}
    assert there == {"run", "submodels", "report"}
    assert any(file.path.endswith(".png") for file in store.list_artifacts(run_id, "report"))
    place = Path(store.download_artifacts(run_id, "submodels"))
    slice_c = safetensors.torch.load_file(place / "c.safetensors")
    expected = result.submodel("c").state_dict()
    assert slice_c.keys() == expected.keys()
    assert all(torch.equal(slice_c[name], expected[name]) for name in expected)
    downloaded = RunResult.open(Path(store.download_artifacts(run_id, "run")))
    with torch.no_grad():
        assert torch.equal(downloaded.submodel("c")(example), result.submodel("c")(example))
