"""The kinds of files a plain graph can be written as, and how each is read back."""

from __future__ import annotations

import importlib.util
import io
import json
import operator
import shutil
import warnings
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, fx

from heterofl_ray.errors import ConfigError
from heterofl_ray.exporting import standalone

Predict = Callable[[Tensor], Tensor]
Description = Mapping[str, Any]


@dataclass(frozen=True)
class Format:
    suffix: str
    write: Callable[[fx.GraphModule, Tensor, Description, Path], None]
    read: Callable[[Path], Predict | None]
    """None: it cannot be run here."""
    how: str
    """In words, how to load it."""


def _write_safetensors(
    module: fx.GraphModule, example: Tensor, description: Description, path: Path
) -> None:
    # several names may share memory, as an expanded tensor does; a file has none to share
    tensors = {_dotted(name): tensor.clone() for name, tensor in module.named_buffers()}
    whole = {**description, "format": standalone.FORMAT, "graph": _steps(module.graph)}
    metadata = {"format": "pt", "heterofl-ray": json.dumps(whole)}
    safetensors.torch.save_file(tensors, path, metadata)


def _dotted(name: str) -> str:
    """The tensor's name in the model: 'body.0.conv1.weight'."""
    return name.replace("__", ".")


def _steps(graph: fx.Graph) -> dict[str, Any]:
    inputs = [node.name for node in graph.nodes if node.op == "placeholder"]
    output = next(node.args[0] for node in graph.nodes if node.op == "output")
    steps = [
        {
            "name": node.name,
            "op": _operation_name(node.target),
            "args": [_written(each) for each in node.args],
            "kwargs": {
                key: _written(each)
                for key, each in node.kwargs.items()
                if key not in ("device", "pin_memory")  # wherever the model is loaded
            },
        }
        for node in graph.nodes
        if node.op == "call_function"
    ]
    return {"input": inputs[0], "output": output.name, "steps": steps}


def _operation_name(target: Any) -> str:
    name = str(target)
    if not isinstance(target, torch._ops.OpOverload):
        name = getattr(target, "__name__", "")
        name = f"size.{name}" if getattr(operator, name, None) is target else str(target)
    if name not in standalone.OPERATIONS:
        raise ConfigError(f"the model uses {name}, which safetensors cannot hold; try torchscript")
    return name


def _written(value: Any) -> Any:
    if isinstance(value, fx.Node):
        if value.op == "get_attr":
            return {"tensor": _dotted(str(value.target))}
        return {"step": value.name}
    if isinstance(value, (list, tuple)):
        return [_written(each) for each in value]
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ConfigError(f"the model uses the value {value!r}, which safetensors cannot hold")


def _read_safetensors(path: Path) -> Predict:
    return standalone.load(path)


def _write_torchscript(
    module: fx.GraphModule, example: Tensor, description: Description, path: Path
) -> None:
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # torch would have everybody use torch.export
        script = torch.jit.trace(module, (example,), check_trace=False)
        torch.jit.save(script, path, {"description.json": json.dumps(description)})


def _read_torchscript(path: Path) -> Predict:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script: Predict = torch.jit.load(path)
    return script


def _write_onnx(
    module: fx.GraphModule, example: Tensor, description: Description, path: Path
) -> None:
    missing = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError.of(
            "--format",
            "onnx",
            f"{' and '.join(missing)} is missing; pip install 'heterofl-ray[onnx]'",
        )
    # torch tells about its progress on standard output
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), torch.no_grad():
        warnings.simplefilter("ignore")
        program: Any = torch.onnx.export(
            module,
            (example,),
            dynamo=True,
            input_names=["inputs"],
            output_names=["logits"],
            dynamic_shapes=({0: "examples"},),
            verbose=False,
        )
        program.model.metadata_props["heterofl-ray"] = json.dumps(description)
        program.save(path)


def _read_onnx(path: Path) -> Predict | None:
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda inputs: torch.from_numpy(session.run(None, {"inputs": inputs.numpy()})[0])


FORMATS: dict[str, Format] = {
    "safetensors": Format(
        ".safetensors",
        _write_safetensors,
        _read_safetensors,
        "from load_model import load; model = load(FILE); logits = model(inputs)",
    ),
    "torchscript": Format(
        ".pt",
        _write_torchscript,
        _read_torchscript,
        "model = torch.jit.load(FILE); logits = model(inputs)",
    ),
    "onnx": Format(
        ".onnx",
        _write_onnx,
        _read_onnx,
        "session = onnxruntime.InferenceSession(FILE); "
        "logits = session.run(None, {'inputs': inputs})[0]",
    ),
}


def put_loader(folder: Path) -> None:
    """The reader of safetensors exports, for whoever does not have this package."""
    shutil.copyfile(standalone.__file__, folder / "load_model.py")
