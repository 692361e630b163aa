"""The run command, as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from heterofl_ray.cli import main
from heterofl_ray.commands.base import print_json
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.result import RunResult
from heterofl_ray.settings import load_yaml

SHORT = [
    *("--set", "rounds=2"),
    *("--set", "evaluate_every=1"),
    *("--set", "local_epochs=1"),
    *("--set", "network.hidden=[8,8]"),
]


def test_json_is_one_object_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "digits-dynamic", *SHORT, "--set", "mix=a-e", "--json"]) == 0
    output = capsys.readouterr()
    summary = json.loads(output.out)
    assert set(summary) == {
        "run_dir", "rounds", "seconds", "global", "local", "levels",
        "megabytes_down", "megabytes_up", "model_sha256",
    }  # fmt: skip
    assert summary["rounds"] == 2
    assert set(summary["levels"]) == {"a", "e"}
    assert summary["levels"]["a"] == summary["global"]
    assert 0 <= summary["global"]["accuracy"] <= 100
    assert len(summary["model_sha256"]) == 64
    assert "round 2/2" in output.err


def test_the_run_folder_keeps_config_history_and_model(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "digits-dynamic", *SHORT, "--quiet", "--json"]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    summary = json.loads(output.out)
    folder = Path(summary["run_dir"])
    settings = load_yaml(folder / "config.yaml")
    settings.pop("data_dir")
    config = ExperimentConfig.from_dict(settings)
    assert config.rounds == 2
    assert config.hash() in (folder / "config.yaml").read_text()
    assert json.loads((folder / "result.json").read_text())["config_hash"] == config.hash()
    result = RunResult.open(folder)
    assert result.summary == summary
    assert result.history["round"].to_pylist() == [1, 2]
    assert result.history["global_accuracy"].to_pylist()[-1] == summary["global"]["accuracy"]
    assert sum(result.history["megabytes_down"].to_pylist()) == summary["megabytes_down"]


def test_the_table_names_every_level(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "digits-dynamic", *SHORT, "--quiet"]) == 0
    shown = capsys.readouterr().out
    for words in (
        "global model (level a)",
        "sub-model b",
        "sub-model e",
        "accuracy",
        "run kept in",
    ):
        assert words in shown


def test_a_yaml_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "data: digits\nmodel: mlp\nmix: a-c\nclients: 10\nrounds: 1\nlocal_epochs: 1\n"
        "network:\n  hidden: [8]\n"
    )
    assert main(["run", str(path), "--quiet", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["levels"]) == {"a", "c"}


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["network.embedding=16", "network.heads=2", "network.layers=1", "rounds=1"]
    sets = [word for text in small for word in ("--set", text)]
    assert main(["run", "pydocs-dynamic", *sets, "--quiet", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["global"]["perplexity"] > 1
    assert summary["local"] == {}
    assert set(summary["levels"]) == set("abcde")


def test_a_diverged_run_still_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"loss": float("nan"), "levels": {"a": [1.0, float("inf")]}})
    assert json.loads(capsys.readouterr().out) == {"loss": None, "levels": {"a": [1.0, None]}}
