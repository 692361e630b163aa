"""The files of a run that has ended, in MLflow: the run itself, a report, sub-models, the model.

The model is logged as a traced graph (torch.export), which MLflow's PyTorch flavour loads and
serves without unpickling code; a pickled module would run whatever is in the file.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from heterofl_ray.tracking.folder import CONFIG, HISTORY, REPORT

if TYPE_CHECKING:
    from heterofl_ray.tracking.mlflow_store import MlflowRun

logger = logging.getLogger(__name__)

MODEL = "model"
RUN = "run"
_RUN_FILES = (CONFIG, HISTORY, "result.json", "model.safetensors", "statistics.safetensors")
SUBMODELS = "submodels"


def log_files(run: MlflowRun) -> None:
    """Whatever is there; a run that was stopped has no model yet.

    Of a sweep's trials only the best ones' models are kept, which the sweep sees to at its end.
    """
    finished = (run.folder / "result.json").exists() and not run.is_trial
    if finished:
        _report(run.folder)
    with tempfile.TemporaryDirectory() as scratch:
        for name in _RUN_FILES:
            if (run.folder / name).exists():
                shutil.copyfile(run.folder / name, Path(scratch) / name)
        run.client.log_artifacts(run.run_id, scratch, RUN)
    if (run.folder / REPORT).is_dir():
        run.client.log_artifacts(run.run_id, str(run.folder / REPORT), REPORT)
    if not run.is_trial:
        log_models(run)


def log_models(run: MlflowRun) -> None:
    """The global model, and every level's slice of it."""
    if (run.folder / SUBMODELS).is_dir():
        run.client.log_artifacts(run.run_id, str(run.folder / SUBMODELS), SUBMODELS)
    if (run.folder / "result.json").exists():
        _log_model(run)


def _report(folder: Path) -> None:
    """Fill the folder of figures; a report that fails is no reason to keep the rest back."""
    from heterofl_ray.reporting.report import write_report

    try:
        write_report([folder], folder / REPORT)
    except Exception:
        logger.exception("there is no report")


def _log_model(run: MlflowRun) -> None:
    """One model of the run, READY once its files are there; begun ones are gone on with."""
    from mlflow.entities import LoggedModelOutput

    known = run.client.search_logged_models(
        [run.experiment_id], f"source_run_id = '{run.run_id}' AND name = '{MODEL}'"
    )
    if any(model.status == "READY" for model in known):
        return
    with tempfile.TemporaryDirectory() as scratch:
        model = (
            known[0]
            if known
            else run.client.create_logged_model(run.experiment_id, MODEL, run.run_id)
        )
        if not _save_model(run, model.model_id, Path(scratch) / MODEL):
            run.client.finalize_logged_model(model.model_id, "FAILED")
            return
        run.client.log_model_artifacts(model.model_id, str(Path(scratch) / MODEL))
    run.client.log_outputs(run.run_id, [LoggedModelOutput(model.model_id, step=0)])
    run.client.finalize_logged_model(model.model_id, "READY")


def _save_model(run: MlflowRun, model_id: str, path: Path) -> bool:
    """Nothing here asks the server: what fails would fail again, so the run ends without it."""
    try:
        _export(run, model_id, path)
    except Exception:
        logger.exception("there is no model")
        return False
    return True


def _export(run: MlflowRun, model_id: str, path: Path) -> None:
    import mlflow.pytorch
    import torch
    from mlflow.models import Model
    from mlflow.models.signature import ModelSignature
    from mlflow.types import Schema, TensorSpec

    from heterofl_ray.tracking.models import global_module, read_example

    torch.set_num_threads(1)
    module = global_module(run.folder)
    inputs = read_example(run.folder)
    with torch.no_grad():
        outputs = module(inputs)

    def any_number(values: torch.Tensor) -> Schema:
        return Schema([TensorSpec(values.numpy().dtype, (-1, *values.shape[1:]))])

    mlflow.pytorch.save_model(
        module,
        str(path),
        mlflow_model=Model(run_id=run.run_id, model_id=model_id, model_uuid=model_id),
        signature=ModelSignature(any_number(inputs), any_number(outputs)),
        input_example=inputs.numpy(),
        serialization_format="pt2",
        pip_requirements=[f"{name}=={version(name)}" for name in ("mlflow", "torch")],
    )
