"""What a run says about itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.settings import describe
from heterofl_ray.tracking import events

from .conftest import INFO


def start(config: ExperimentConfig, folder: Path) -> events.Event:
    return events.start(config, folder, INFO, folder / "digits-0123456789abcdef")


def test_every_setting_is_a_parameter_but_the_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@host")
    config = ExperimentConfig(mix="a-c").override(["network.hidden=[8,16]"])
    event = start(config, tmp_path)
    assert set(event["params"]) == set(describe(config)) - {"tracking.uri"}
    assert event["params"]["mix"] == "a-c"
    assert event["params"]["network.hidden"] == "[8, 16]"
    assert event["params"]["network.scaler"] == "true"
    assert event["uri"] == "http://host"
    assert "secret" not in str(event)


def test_a_parameter_too_long_for_mlflow_is_cut(tmp_path: Path) -> None:
    config = ExperimentConfig(clients=3000).override([f"capability.values={[0.5] * 3000}"])
    assert len(start(config, tmp_path)["params"]["capability.values"]) == 6000


def test_the_data_set_is_named_by_its_content(tmp_path: Path) -> None:
    data = start(ExperimentConfig(), tmp_path)["data"]
    assert (data["name"], data["digest"]) == ("digits", "0123456789abcdef")
    assert (data["kind"], data["train"], data["test"], data["outputs"]) == ("images", 1438, 359, 10)


def test_the_commit_of_the_users_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    commit = "mlflow.source.git.commit"
    assert commit not in start(ExperimentConfig(), tmp_path)["tags"]

    def git(*arguments: str) -> str:
        names = ["-c", "user.name=n", "-c", "user.email=e@x"]
        done = subprocess.run(
            ["git", *names, *arguments], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message", "one")
    head = git("rev-parse", "HEAD")
    assert start(ExperimentConfig(), tmp_path)["tags"][commit] == head

    copy = tmp_path.parent / f"{tmp_path.name}-copy"  # where a submitted job finds itself
    copy.mkdir()
    monkeypatch.chdir(copy)
    assert commit not in start(ExperimentConfig(), tmp_path)["tags"]
    monkeypatch.setenv("HETEROFL_BASE_DIR", str(tmp_path))
    assert start(ExperimentConfig(), tmp_path)["tags"][commit] == head


def test_tags_name_config_versions_and_place(tmp_path: Path) -> None:
    config = ExperimentConfig()
    tags = start(config, tmp_path)["tags"]
    assert tags["config_hash"] == config.hash()
    assert tags["run_dir"] == str(tmp_path)
    for name in ("heterofl-ray", "torch", "ray", "python"):
        assert tags[f"version.{name}"]
    assert tags["host"]


def test_a_round_tells_what_it_knows() -> None:
    event = events.round_done({"round": 3, "loss": 0.5, "loss_b": None, "rejected": 0})
    assert event["step"] == 3
    assert event["values"] == {"loss": 0.5, "rejected": 0}
    assert events.sample(4, {"cpu": 1.0})["values"] == {"system/cpu": 1.0}
