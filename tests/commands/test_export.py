"""The export command, as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from heterofl_ray.cli import main
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.exporting import standalone
from heterofl_ray.result import RunResult
from heterofl_ray.runner import run


@pytest.fixture
def folder(tiny: ExperimentConfig) -> str:
    return str(run(tiny.override(["rounds=1"])).summary["run_dir"])


def test_json(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", folder, "--level", "c", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    path = Path(told["file"])
    assert path == Path(folder) / "export" / "level-c.safetensors"
    assert told["bytes"] == path.stat().st_size
    assert told["compared_examples"] == 359
    inputs = torch.randn(4, 1, 8, 8)
    with torch.no_grad():
        difference = standalone.load(path)(inputs) - RunResult.open(Path(folder)).submodel("c")(
            inputs
        )
    assert difference.abs().max() < 1e-5
    assert 0 <= told["max_difference"] < 1e-5


def test_the_global_model_is_what_one_gets_unasked(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", folder, "--format", "torchscript", "--out", "taken/home.pt"]) == 0
    shown = capsys.readouterr().out
    assert "level a as torchscript in taken/home.pt" in shown
    assert "logits differ from the run's by at most" in shown
    assert "torch.jit.load('taken/home.pt')" in shown
    assert {path.name for path in Path("taken").iterdir()} == {"home.pt", "home.pt.json"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--level", "q"], "level='q' is not valid: known: a, c"),
        (["--format", "onxx"], "--format='onxx' is not valid: did you mean 'onnx'?"),
        (["--data-dir", "nowhere", "--level", "z"], "level='z'"),
        (["--levels", "a"], "unrecognized arguments: --levels a"),
    ],
)
def test_mistakes(
    words: list[str], says: str, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["export", folder, *words])
    except SystemExit as stop:
        code = stop.code  # type: ignore[assignment]
    output = capsys.readouterr()
    assert (code, output.out, output.err.count("\n")) == (2, "", 1)
    assert says in output.err
    assert not (Path(folder) / "export").exists()


def test_pixels_of_a_text_model(
    tiny_text: ExperimentConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run(tiny_text.override(["rounds=1"])).summary["run_dir"]
    assert main(["export", folder, "--raw"]) == 2
    assert "text has no pixels" in capsys.readouterr().err


def test_a_run_that_is_not_finished(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    (Path(folder) / "result.json").unlink()
    assert main(["export", folder]) == 2
    assert f"is not finished; go on with: heterofl-ray resume {folder}" in capsys.readouterr().err
    assert main(["export", "elsewhere"]) == 2
    assert "elsewhere is not the folder of a run" in capsys.readouterr().err
