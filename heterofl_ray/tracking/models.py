"""A finished run's models as files that need no pickle: sub-models, an example, a traced graph.

The driver writes them, since only it knows models that a user registered.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from heterofl_ray import state
from heterofl_ray.errors import ConfigError
from heterofl_ray.models import registry
from heterofl_ray.tracking.folder import TRACKING

if TYPE_CHECKING:
    from heterofl_ray.clients.workbench import Workbench
    from heterofl_ray.result import RunResult

logger = logging.getLogger(__name__)

SUBMODELS = "submodels"
_EXAMPLES = 4
"""More than one, so that a traced model takes any number of them."""
_HOW = """Each file holds one level's slice of the global model: its parameters by name and, as
LAYER.mean and LAYER.variance, the statistics its static batch norms were tested with.

A ready module, from this run's artifacts:

    import mlflow
    from pathlib import Path
    from heterofl_ray.result import RunResult

    folder = mlflow.artifacts.download_artifacts(run_id="RUN_ID", artifact_path="run")
    model = RunResult.open(Path(folder)).submodel("LEVEL")

The tensors alone: safetensors.torch.load_file("LEVEL.safetensors").
"""


def write_models(result: RunResult, bench: Workbench, folder: Path) -> None:
    """What the sender needs to log the run's models; that it fails is no matter of the run."""
    try:
        example = input_example(bench)
        state.save(_example_path(folder), {"inputs": example})
        write_submodels(result, folder / SUBMODELS)
        if not isinstance(registry.family(result.spec.name).factory, str):
            _write_graph(result, example, _graph_path(folder))
    except Exception:
        logger.exception("the models of this run are left out of MLflow")


def input_example(bench: Workbench) -> Tensor:
    """The first test examples, as a model takes them."""
    size = _EXAMPLES * (bench.config.text.window if bench.data.task == "text" else 1)
    stop = min(size, bench.data.test_size)
    inputs, _ = next(iter(bench.data.test_batches(0, stop, size, torch.device("cpu"))))
    return inputs if len(inputs) > 1 else inputs.repeat(2, *[1] * (inputs.dim() - 1))


def write_submodels(result: RunResult, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    levels = {}
    for level in result.config.levels.levels:
        try:
            model = result.submodel(level.name)
        except ConfigError:  # never tested, so without statistics
            continue
        tensors = dict(model.state_dict())
        state.save(folder / f"{level.name}.safetensors", tensors)
        levels[level.name] = {
            "file": f"{level.name}.safetensors",
            "rate": level.rate,
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
        }
    about = {
        "model": result.spec.name,
        "input_shape": result.spec.input_shape,
        "outputs": result.spec.outputs,
        "levels": levels,
    }
    (folder / "levels.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    (folder / "README.txt").write_text(_HOW, encoding="utf-8")


def _write_graph(result: RunResult, example: Tensor, path: Path) -> None:
    """A model of the user's own, traced here because no other process can build it."""
    graph = torch.export.export(
        result.global_model(), (example,), dynamic_shapes=({0: torch.export.Dim.AUTO},)
    )
    torch.export.save(graph, path)


def global_module(folder: Path) -> nn.Module:
    """The global model of a run's folder."""
    from heterofl_ray.result import RunResult

    if _graph_path(folder).exists():
        module: nn.Module = torch.export.load(_graph_path(folder)).module()
        return module
    return RunResult.open(folder).global_model()


def read_example(folder: Path) -> Tensor:
    return state.load(_example_path(folder))["inputs"]


def _example_path(folder: Path) -> Path:
    return folder / TRACKING / "example.safetensors"


def _graph_path(folder: Path) -> Path:
    return folder / TRACKING / "model.pt2"
