"""Model files and run folders that were tampered with: one line, nothing run, nothing built."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from heterofl_ray import run
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import DataError
from heterofl_ray.exporting import standalone
from heterofl_ray.result import RunResult


def step(op: str, *args: Any) -> dict[str, Any]:
    return {"name": "out", "op": op, "args": list(args), "kwargs": {}}


def model(path: Path, *steps: Any, **changed: Any) -> Path:
    graph = {"input": "x", "output": "out", "steps": list(steps)}
    written = {"format": standalone.FORMAT, "graph": graph, **changed}
    save_file({"w": torch.ones(2)}, path, {"heterofl-ray": json.dumps(written)})
    return path


def test_a_listed_operation_is_run(tmp_path: Path) -> None:
    path = model(tmp_path / "x", step("aten.mul.Tensor", {"step": "x"}, {"tensor": "w"}))
    assert standalone.load(path)(torch.tensor([2.0, 3.0])).tolist() == [2.0, 3.0]


@pytest.mark.parametrize(
    "op",
    [
        *("aten.from_file.default", "aten.nothing.default", "aten.mul.nothing", "aten.mul"),
        *(
            "aten.mul.__class__",
            "os.system",
            "size.add.x",
            "size.__import__",
            "prim.Print.default",
            "",
            # operations that torch has, and exported models do not
            "aten.save.default",
            "aten.empty.memory_format",
            "aten.zeros.default",
            "aten.set_.source_Tensor",
            "size.pow",
            ["aten.mul.Tensor"],
        ),
    ],
)
def test_no_other_operation_can_be_named(op: Any, tmp_path: Path) -> None:
    target = tmp_path / "made"
    path = model(tmp_path / "x", step(op, str(target), True, 8))
    with pytest.raises(ValueError, match=r"x is no exported model: .*(not known here|unhashable)"):
        standalone.load(path)
    assert not target.exists()


def test_every_operation_of_the_list_is_there() -> None:
    for name in standalone.OPERATIONS:
        assert callable(standalone._operation(name)), name


def test_files_that_are_too_large_are_refused_before_they_are_read(tmp_path: Path) -> None:
    path = model(tmp_path / "x", step("aten.mul.Tensor", {"step": "x"}, {"tensor": "w"}))
    with path.open("r+b") as file:
        file.truncate(2**40)  # holes take no space
    with pytest.raises(ValueError, match="x is no exported model: it is larger than 4 GiB"):
        standalone.load(path)


def test_so_are_headers_and_what_is_no_file(tmp_path: Path) -> None:
    note = " " * standalone.LARGEST_HEADER
    save_file({"w": torch.ones(2)}, tmp_path / "x", {"heterofl-ray": note})
    with pytest.raises(ValueError, match="x is no exported model: its header is larger than 16"):
        standalone.load(tmp_path / "x")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(ValueError, match="is no exported model: it is not a file"):
            standalone.load(path)
    with pytest.raises(FileNotFoundError):
        standalone.load(tmp_path / "nothing")


def test_what_is_no_dtype_is_not_handed_out(tmp_path: Path) -> None:
    path = model(tmp_path / "x", step("aten.to.dtype", {"step": "x"}, {"dtype": "hub"}))
    with pytest.raises(ValueError, match="no dtype"):
        standalone.load(path)(torch.ones(2))


@pytest.mark.parametrize(
    "changed", [{"format": "x"}, {"graph": 3}, {"graph": {}}, {"graph": {"steps": [1]}}]
)
def test_headers_that_are_wrong(changed: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="x is no exported model"):
        standalone.load(model(tmp_path / "x", **changed))
    (tmp_path / "y").write_bytes(b"no tensors at all")
    with pytest.raises(ValueError, match="y is no exported model"):
        standalone.load(tmp_path / "y")


@pytest.fixture
def folder(tiny: ExperimentConfig) -> Path:
    return Path(run(tiny.override(["rounds=1"])).summary["run_dir"])


def change(folder: Path, **changed: Any) -> None:
    path = folder / "result.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))


@pytest.mark.parametrize(
    "changed",
    [
        *({"outputs": "10"}, {"outputs": -1}, {"outputs": 2**40}, {"outputs": True}),
        *({"input_shape": 3}, {"input_shape": ["a"]}, {"levels": []}, {"model_sha256": None}),
    ],
    ids=str,
)
def test_results_that_are_wrong(changed: dict[str, Any], folder: Path) -> None:
    change(folder, **changed)
    with pytest.raises(DataError, match="is not the folder of a finished run"):
        RunResult.open(folder)


def test_a_model_larger_than_its_file_is_never_built(folder: Path) -> None:
    text = (folder / "config.yaml").read_text()
    wide = text.replace("hidden:\n  - 8\n  - 8", "hidden: [100000000, 100000000]")
    assert wide != text
    (folder / "config.yaml").write_text(wide)
    with pytest.raises(DataError, match=r"model.safetensors is not the model of its config.yaml"):
        RunResult.open(folder).global_model()


def test_outputs_that_the_file_does_not_have(folder: Path) -> None:
    change(folder, outputs=2**30)
    with pytest.raises(DataError, match=r"model.safetensors is not the model of its config.yaml"):
        RunResult.open(folder).global_model()


@pytest.mark.parametrize("wrong", [torch.ones(3), torch.ones(8, dtype=torch.int64)])
def test_statistics_that_do_not_fit(wrong: torch.Tensor, folder: Path) -> None:
    result = RunResult.open(folder)
    name = next(name for name in result.statistics if name.startswith("a/"))
    save_file({**result.statistics, name: wrong}, folder / "statistics.safetensors")
    with pytest.raises(DataError, match=r"statistics.safetensors has no"):
        RunResult.open(folder).global_model()


def test_what_clients_keep_must_be_named_by_them(folder: Path) -> None:
    save_file({"clients/x/w": torch.ones(1)}, folder / "clients.safetensors")
    with pytest.raises(DataError, match="is not named by a client"):
        RunResult.open(folder)
