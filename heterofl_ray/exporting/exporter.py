"""Taking a level's model home: written, read back, and compared with the simulator's predictions.

A file gets its name only after the model in it has been seen to predict what the run's own model
predicts on test examples.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.data.images import ImageClients
from heterofl_ray.errors import ConfigError, RunFailed
from heterofl_ray.exporting.folding import plain_graph
from heterofl_ray.exporting.formats import FORMATS, Predict, put_loader
from heterofl_ray.result import RunResult

EXAMPLES = 1000
WINDOWS = 64
# Of the largest logit: folding reorders float32 sums, and nothing else may differ.
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Exported:
    path: Path
    description: dict[str, Any]
    difference: float | None
    """Largest of any logit; None: the format cannot be run here."""
    examples: int


class _Raw(nn.Module):
    """Pixels as they are stored in, normalised as in training."""

    factor: Tensor
    shift: Tensor

    def __init__(self, model: nn.Module, factor: Tensor, shift: Tensor) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("factor", factor)
        self.register_buffer("shift", shift)

    def forward(self, pixels: Tensor) -> Tensor:
        logits: Tensor = self.model(pixels.to(torch.float32) * self.factor + self.shift)
        return logits


def export_model(
    result: RunResult,
    level: str,
    kind: str,
    *,
    data_root: Path,
    out: Path,
    raw: bool = False,
) -> Exported:
    """Write the level's model as ``kind`` into the file ``out``, with a ``.json`` about it.

    ``raw`` has the model normalise images itself: it takes pixels as they are stored.
    """
    if kind not in FORMATS:
        raise ConfigError.unknown("--format", kind, FORMATS)
    form = FORMATS[kind]
    model = result.submodel(level)
    bench = Workbench(result.config, data_root, torch.device("cpu"))
    images = isinstance(bench.data, ImageClients)
    if raw and not images:
        raise ConfigError.of("--raw", result.config.data, "text has no pixels to normalise")
    wanted: nn.Module = model
    if raw:
        wanted = _Raw(model, *_normalisation(bench))
        wanted.training = False  # not .eval(): that would switch the model's Scalers off
    example = next(_batches(bench, raw))[:2]
    graph = plain_graph(wanted, example)
    description = _describe(result, level, kind, bench, raw, form.how)
    out.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".partial-", dir=out.parent))
    try:
        draft = scratch / out.name
        form.write(graph, example, description, draft)
        predict = form.read(draft)
        difference, examples = _compare(wanted, predict, bench, raw)
        description |= {"max_difference": difference, "compared_examples": examples}
        beside = scratch / f"{out.name}.json"
        beside.write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")
        del predict  # it may hold the file open
        for path in sorted(scratch.iterdir()):  # a large ONNX model has a second file
            path.replace(out.parent / path.name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if kind == "safetensors":
        put_loader(out.parent)
    return Exported(out, description, difference, examples)


@torch.no_grad()
def _compare(
    model: nn.Module, predict: Predict | None, bench: Workbench, raw: bool
) -> tuple[float | None, int]:
    """Largest difference of a logit over test examples, in batches of several sizes."""
    if predict is None:
        return None, 0
    largest, scale, count = 0.0, 1.0, 0
    for inputs in _batches(bench, raw):
        expected = model(inputs)
        found = predict(inputs)
        if found.shape != expected.shape:
            raise RunFailed(
                f"the exported model gives {tuple(found.shape)}, not {tuple(expected.shape)}"
            )
        largest = max(largest, float((found - expected).abs().max()))
        scale = max(scale, float(expected.abs().max()))
        count += len(inputs)
    if not largest <= TOLERANCE * scale:
        raise RunFailed(
            f"the exported model differs from the run's by up to {largest:.3g}; nothing was written"
        )
    return largest, count


def _batches(bench: Workbench, raw: bool) -> Iterator[Tensor]:
    """Test inputs: a batch of a few first, then larger ones and what is left."""
    data = bench.data
    window = bench.config.text.window if data.task == "text" else 1
    stop = min(data.test_size, WINDOWS * window if data.task == "text" else EXAMPLES)
    few = min(3 * window, stop)
    for start, end in ((0, few), (few, stop)):
        if start == end:
            continue
        if raw and isinstance(data, ImageClients):
            yield from data.dataset.test.images[start:end].split(97)
            continue
        for inputs, _ in data.test_batches(start, end, 97 * window, bench.device):
            if window == 1 or inputs.shape[1] == window:
                yield inputs


def _normalisation(bench: Workbench) -> tuple[Tensor, Tensor]:
    """What pixels are multiplied by, and what is added then."""
    info = bench.data.dataset.info
    mean, std = (torch.tensor(values, dtype=torch.float64) for values in (info.mean, info.std))
    largest = 255 if info.dtype == "uint8" else 1
    shape = (-1,) + (1,) * (len(info.shape) - 1)
    return (1 / (std * largest)).view(shape).float(), (-mean / std).view(shape).float()


def _describe(
    result: RunResult, level: str, kind: str, bench: Workbench, raw: bool, how: str
) -> dict[str, Any]:
    info, mix = bench.data.dataset.info, result.config.levels
    inputs: dict[str, Any]
    if bench.data.task == "text":
        inputs = {
            "dtype": "int64",
            "shape": ["examples", *result.spec.input_shape],
            "tokens": f"0 to {result.spec.outputs - 1}; {result.spec.outputs} is the mask",
            "vocabulary": str(bench.data.dataset.folder / "vocabulary.arrow"),
        }
    elif bench.data.task == "sequences":
        inputs = {
            "dtype": "int64",
            "shape": ["examples", *result.spec.input_shape],
            "rows": "tokens; parts (0: padding, 1: the first text, 2: the second)",
            "vocabulary": str(bench.data.dataset.folder / "vocabulary.arrow"),
        }
    else:
        pixels = info.dtype if raw else "float32"
        inputs = {
            "dtype": pixels,
            "shape": ["examples", *result.spec.input_shape],
            "mean": list(info.mean),
            "std": list(info.std),
            "normalised": "by the model" if raw else "before the model: (pixel - mean) / std",
            "pixels": "as stored" if raw else "from 0 to 1 before normalisation",
        }
    return {
        "model": result.config.model,
        "level": level,
        "rate": mix[level].rate,
        "file": kind,
        "how_to_load": how,
        "input": inputs,
        "output": {
            "logits": result.spec.outputs,
            "classes": list(info.classes) or None,
        },
        "run": str(result.summary["run_dir"]),
        "config_hash": result.config.hash(),
        "model_sha256": result.summary["model_sha256"],
        "scores": result.summary["levels"].get(level),
    }
