"""Exported models predict what the run's own models do: all families, norms, levels and formats."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from heterofl_ray import register_model, run
from heterofl_ray.clients import scoring
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError, RunFailed
from heterofl_ray.exporting import exporter, formats, standalone
from heterofl_ray.exporting.exporter import export_model
from heterofl_ray.exporting.folding import plain_graph
from heterofl_ray.models import registry
from heterofl_ray.models.layers import Scaler, StaticBatchNorm
from heterofl_ray.models.spec import ModelSpec
from heterofl_ray.result import RunResult
from heterofl_ray.setting_groups import NetworkConfig

WIDTHS = {"conv": [8, 16], "mlp": [16, 16], "preresnet18-paper": [8, 8, 16, 16]}
FORMATS = ("safetensors", "torchscript", "onnx")


def finished(model: str, norm: str = "auto", **changed: object) -> RunResult:
    """A run of one round: enough for weights and statistics that are nobody's default."""
    values = {
        # four stages leave one pixel of a digit, which instance norm cannot normalise
        "data": "synthetic-images:300" if model.startswith("preresnet") else "digits",
        "model": model,
        "mix": "a-b",
        "shrink": 0.5,
        "clients": 10,
        "fraction": 0.2,
        "rounds": 1,
        "local_epochs": 1,
        "network": {"norm": norm, "hidden": WIDTHS.get(model, [])},
        **changed,
    }
    return run(ExperimentConfig.from_dict(values))


def text_run() -> RunResult:
    network = {"embedding": 24, "heads": 2, "feedforward": 16, "layers": 1}
    return finished("transformer", data="pydocs", clients=100, shrink=0.7, network=network)


def operations(graph: torch.fx.GraphModule) -> set[str]:
    return {str(node.target) for node in graph.graph.nodes if node.op == "call_function"}


def check(result: RunResult, kind: str, data_root: Path, out: Path) -> None:
    """Both levels, on the whole of the test examples that are compared, again and by hand."""
    for level in ("a", "b"):
        path = out / f"{level}{formats.FORMATS[kind].suffix}"
        done = export_model(result, level, kind, data_root=data_root, out=path)
        assert done.difference is not None
        assert done.examples >= 30
        predict = formats.FORMATS[kind].read(path)
        assert predict is not None
        for count in (1, 2, 5):  # any number of examples
            shape = (count, *result.spec.input_shape)
            inputs = (
                torch.randint(0, result.spec.outputs + 1, shape)
                if result.config.data == "pydocs"
                else torch.randn(shape)
            )
            with torch.no_grad():
                expected = result.submodel(level)(inputs)
            torch.testing.assert_close(predict(inputs), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("norm", ["sbn", "in", "gn", "ln", "none"])
@pytest.mark.parametrize("model", ["conv", "preresnet18-paper"])
def test_every_norm(model: str, norm: str, data_root: Path, tmp_path: Path) -> None:
    check(finished(model, norm), "safetensors", data_root, tmp_path)


@pytest.mark.parametrize("norm", ["sbn", "none"])
def test_mlp(norm: str, data_root: Path, tmp_path: Path) -> None:
    check(finished("mlp", norm), "safetensors", data_root, tmp_path)


@pytest.mark.parametrize("kind", ["torchscript", "onnx"])
@pytest.mark.parametrize("model", ["conv", "preresnet18-paper"])
def test_other_formats(model: str, kind: str, data_root: Path, tmp_path: Path) -> None:
    if kind == "onnx":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnxscript")
    check(finished(model, "sbn"), kind, data_root, tmp_path)


@pytest.mark.parametrize("kind", FORMATS)
def test_text(kind: str, data_root: Path, tmp_path: Path) -> None:
    if kind == "onnx":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnxscript")
    check(text_run(), kind, data_root, tmp_path)


class OwnNet(nn.Module):
    """Reads one layer's output twice, so that its norm must not go into its weights."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        width = math.ceil(16 * rate)
        self.first = nn.Linear(64, width)
        self.scaler = Scaler()
        self.norm = StaticBatchNorm(width)
        self.last = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x.flatten(1))
        logits: Tensor = self.last(torch.relu(self.norm(self.scaler(hidden))) + hidden)
        return logits


@pytest.mark.parametrize("kind", ["safetensors", "torchscript"])
def test_a_model_of_the_users_own(
    kind: str, data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "MODELS", dict(registry.MODELS))
    register_model("own-net", OwnNet, label_rows=["last.weight", "last.bias"])
    check(finished("own-net", network={}), kind, data_root, tmp_path)


def test_folding_leaves_nothing_of_training(data_root: Path) -> None:
    left = {
        "conv": operations(plain_graph(finished("conv").submodel("b"), torch.randn(2, 1, 8, 8))),
        "text": operations(plain_graph(text_run().submodel("b"), torch.zeros(2, 64).long())),
    }
    for names in left.values():
        assert not {name for name in names if "batch_norm" in name or "dropout" in name}
        assert "aten.div.Tensor" not in names
    assert left["conv"] == {
        "aten.conv2d.default",
        "aten.relu_.default",
        "aten.max_pool2d.default",
        "aten.mean.dim",
        "aten.linear.default",
    }


def test_folding_by_hand() -> None:
    """One linear layer, Scaler 1/2, norm: y = 3 * ((2 (w x + c) - 1) / sqrt(4)) + 5, eps 0."""
    norm = StaticBatchNorm(1, eps=0.0)
    linear = nn.Linear(1, 1)
    scaler = Scaler(0.5)
    model = nn.Sequential(linear, scaler, norm).eval()
    scaler.train()
    with torch.no_grad():
        linear.weight.fill_(7)
        linear.bias.fill_(2)
        norm.weight.fill_(3)
        norm.bias.fill_(5)
    norm.mean, norm.variance = torch.tensor([1.0]), torch.tensor([4.0])
    graph = plain_graph(model, torch.zeros(2, 1))
    weight, bias = (tensor.item() for _, tensor in sorted(graph.named_buffers(), reverse=True))
    assert (weight, bias) == (3 * 2 * 7 / 2, 3 * (2 * 2 - 1) / 2 + 5)
    assert graph(torch.tensor([[10.0]])).item() == 21 * 10 + 9.5


def test_pixels_can_be_normalised_by_the_model(data_root: Path, tmp_path: Path) -> None:
    result = finished("conv")
    out = tmp_path / "raw.safetensors"
    done = export_model(result, "b", "safetensors", data_root=data_root, out=out, raw=True)
    assert done.description["input"]["dtype"] == "uint8"
    pixels = torch.randint(0, 256, (4, 1, 8, 8), dtype=torch.uint8)
    mean, std = (done.description["input"][name][0] for name in ("mean", "std"))
    with torch.no_grad():
        expected = result.submodel("b")((pixels / 255 - mean) / std)
    torch.testing.assert_close(standalone.load(out)(pixels), expected, rtol=1e-4, atol=1e-5)


def test_the_copied_loader_needs_nothing_of_this_package(data_root: Path, tmp_path: Path) -> None:
    result = finished("conv")
    out = tmp_path / "home" / "model.safetensors"
    export_model(result, "b", "safetensors", data_root=data_root, out=out)
    inputs = torch.randn(3, 1, 8, 8)
    save_file({"inputs": inputs}, tmp_path / "inputs.safetensors")
    script = (
        "import sys; sys.modules['heterofl_ray'] = None\n"
        "from load_model import load\n"
        "from safetensors.torch import load_file, save_file\n"
        "inputs = load_file('../inputs.safetensors')['inputs']\n"
        "save_file({'logits': load('model.safetensors')(inputs)}, '../logits.safetensors')\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=out.parent, check=True)
    with torch.no_grad():
        expected = result.submodel("b")(inputs)
    found = load_file(tmp_path / "logits.safetensors")["logits"]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_the_description_says_what_the_file_is(data_root: Path, tmp_path: Path) -> None:
    result = finished("conv")
    out = tmp_path / "model.safetensors"
    done = export_model(result, "b", "safetensors", data_root=data_root, out=out)
    about = json.loads((tmp_path / "model.safetensors.json").read_text())
    assert about == done.description
    assert about["rate"] == 0.5
    assert about["output"] == {"logits": 10, "classes": [str(digit) for digit in range(10)]}
    assert about["input"]["shape"] == ["examples", 1, 8, 8]
    assert about["model_sha256"] == result.summary["model_sha256"]
    assert about["scores"] == result.summary["levels"]["b"]
    assert sorted(path.name for path in tmp_path.glob("*.*")) == [
        "load_model.py",
        "model.safetensors",
        "model.safetensors.json",
    ]


def test_a_file_that_predicts_otherwise_is_not_kept(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(model: nn.Module, example: Tensor) -> torch.fx.GraphModule:
        graph = plain_graph(model, example)
        next(graph.buffers()).mul_(1.01)
        return graph

    monkeypatch.setattr(exporter, "plain_graph", wrong)
    out = tmp_path / "export" / "model.safetensors"
    with pytest.raises(RunFailed, match="differs from the run's by up to"):
        export_model(finished("conv"), "a", "safetensors", data_root=data_root, out=out)
    assert list(out.parent.iterdir()) == []


class Untraceable(nn.Module):
    def __init__(self, rate: float) -> None:
        super().__init__()
        self.last = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.last(x.flatten(1))
        return logits if float(logits.sum()) > 0 else -logits


def test_a_model_that_cannot_be_recorded_is_named() -> None:
    with pytest.raises(ConfigError, match="Untraceable cannot be exported"):
        plain_graph(Untraceable(1.0), torch.randn(2, 1, 8, 8))


INPUTS = {
    "images": torch.zeros(2, 3, 32, 32),
    "text": torch.zeros(2, 64).long(),
    "sequences": torch.zeros(2, 2, 16).long(),
}


@pytest.mark.parametrize("name", registry.MODELS)
def test_the_reader_knows_what_every_family_is_made_of(name: str) -> None:
    kind = registry.family(name)
    example, narrow = INPUTS[kind.task], NetworkConfig(hidden=(), embedding=16, heads=2, layers=1)
    spec = ModelSpec(name, tuple(example.shape[1:]), 10, narrow, vocabulary=50, per_token=True)
    model = registry.build(spec, 0.25)
    for module in model.modules():
        if isinstance(module, StaticBatchNorm):
            like = module.weight.detach()
            module.mean, module.variance = torch.zeros_like(like), torch.ones_like(like)
    scoring.testing_mode(model)
    assert formats._steps(plain_graph(model, example).graph)["steps"]


def test_a_model_that_the_reader_would_refuse_is_not_written() -> None:
    class Unusual(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.erfinv(x)

    graph = plain_graph(Unusual(), torch.zeros(2, 3)).graph
    with pytest.raises(ConfigError, match=r"uses aten.erfinv.default, .* try torchscript"):
        formats._steps(graph)


def test_onnx_without_its_packages_is_one_clear_line(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = formats.importlib.util.find_spec
    monkeypatch.setattr(
        formats.importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "onnxscript" else real(name, *rest),
    )
    with pytest.raises(ConfigError, match=r"onnxscript is missing; pip install 'heterofl-ray"):
        export_model(
            finished("conv"), "a", "onnx", data_root=data_root, out=tmp_path / "model.onnx"
        )
