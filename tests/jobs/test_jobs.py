"""The job files: the presets they stand for, their smoke tests, their mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import heterofl_ray.jobs.single as single
from heterofl_ray import presets
from heterofl_ray.cli import main
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.jobs import run_preset
from heterofl_ray.jobs.calling import base_dir, job_parser, make_config
from tests.jobs.files import FAST, JOBS, TINY, job_file

SINGLE = {
    "wikitext_dynamic": "wikitext2-dynamic",
    "wikitext_fix": "wikitext2-fix",
    "mnist_dynamic": "mnist-dynamic",
    "mnist_noniid": "mnist-noniid",
    "cifar10_dynamic": "cifar10-dynamic",
    "cifar10_noniid": "cifar10-noniid",
}


def call(name: str, *words: str) -> int:
    return run_preset(SINGLE[name], job_file(name).SMOKE, None, words)


@pytest.mark.parametrize("name", SINGLE)
def test_without_options_a_job_is_its_preset_on_ray(name: str) -> None:
    config = make_config(job_parser(None).parse_args([]), SINGLE[name], job_file(name).SMOKE)
    assert config.hash() == presets.load(SINGLE[name]).hash()
    assert config.execution.backend == "ray"
    assert config.tracking.root == str(Path.cwd() / "runs")
    assert f'run_preset("{SINGLE[name]}", SMOKE, __doc__)' in (JOBS / f"{name}.py").read_text()


@pytest.mark.parametrize("name", SINGLE)
def test_smoke_tests_need_no_download_and_keep_the_kind_of_experiment(name: str) -> None:
    full = presets.load(SINGLE[name])
    smoke = make_config(
        job_parser(None).parse_args(["--smoke"]), SINGLE[name], job_file(name).SMOKE
    )
    assert smoke.data in ("digits", "pydocs")
    for setting in ("model", "partition", "assignment"):
        assert getattr(smoke, setting) == getattr(full, setting)


def test_what_is_set_wins_over_the_smoke_test_and_over_ray() -> None:
    words = ["--smoke", "--set", "rounds=3", "--set", "execution.backend=local"]
    arguments = job_parser(None).parse_args(words)
    config = make_config(arguments, "mnist-dynamic", job_file("mnist_dynamic").SMOKE)
    assert (config.rounds, config.execution.backend) == (3, "local")


def test_a_job_gives_the_run_commands_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    sets = [*TINY, "--set", "partition=classes:2"]
    assert call("mnist_noniid", "--smoke", *sets, *FAST) == 0
    output = capsys.readouterr()
    job = json.loads(output.out)
    assert output.err == ""
    assert main(["run", "digits-dynamic", *sets, "--quiet", "--json"]) == 0
    direct = json.loads(capsys.readouterr().out)
    assert job["model_sha256"] == direct["model_sha256"]
    assert set(job) == {*direct, "report"}
    assert Path(job["report"]).is_file()
    assert Path(job["run_dir"]).parent == Path.cwd() / "runs"


def test_a_smoke_test_says_that_it_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("mnist_dynamic", "--smoke", *TINY, "--backend", "local") == 0
    output = capsys.readouterr()
    assert "embedded data (digits) in place of mnist, 1 rounds" in output.err
    assert f"runs are kept in {Path.cwd() / 'runs'}" in output.err
    assert "sub-model e" in output.out
    assert "index.html" in output.out
    assert "mlflow ui" not in output.out


LITTLE = {
    "wikitext": ["network.embedding=16", "network.heads=2", "network.layers=1", "fraction=0.02"],
    "mnist": ["network.hidden=[8,8]"],
    "cifar10": ["network.hidden=[8,8,8,8]"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SINGLE)
def test_every_smoke_test_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    little = [*LITTLE[name.partition("_")[0]], "rounds=1", "local_epochs=1"]
    words = [word for text in little for word in ("--set", text)]
    assert call(name, "--smoke", *words, *FAST) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told["levels"]) == set("abcde")


def test_where_mlflow_is_to_be_looked_at(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HETEROFL_MLFLOW", "1")
    root = Path.cwd() / "runs"
    config = ExperimentConfig().override([f"tracking.root={root}"])
    single.show_places(config, root / "one", root / "one" / "report" / "index.html")
    expected = f"mlflow ui --backend-store-uri sqlite:///{root}/mlflow.db"
    assert expected in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "words", "says"),
    [
        ("mnist_dynamic", [], "data fetch mnist; --smoke runs on embedded data"),
        ("cifar10_noniid", [], "cifar10 is not there yet"),
        ("wikitext_fix", [], "wikitext2 is not there yet"),
        ("mnist_dynamic", ["--smoke", "--set", "rouds=3"], "did you mean 'rounds'?"),
        ("mnist_dynamic", ["--smok"], "unrecognized arguments: --smok"),
        ("mnist_dynamic", ["--smoke", "--set", "model=covn"], "did you mean 'conv'?"),
        (
            "mnist_dynamic",
            ["--smoke", "--address", "127.0.0.1:1"],
            "execution.address='127.0.0.1:1' is not valid",
        ),
    ],
)
def test_mistakes_are_one_line(
    name: str, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = call(name, *words, "--quiet")
    except SystemExit as stop:
        code = stop.code  # type: ignore[assignment]
    output = capsys.readouterr()
    assert (code, output.out, output.err.count("\n")) == (2, "", 1)
    assert says in output.err


# ---- where a submitted job reads and writes ------------------------------------------------


def in_rays_copy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    copy = tmp_path / "runtime_resources" / "working_dir_files" / "_ray_pkg_1"
    copy.mkdir(parents=True)
    monkeypatch.chdir(copy)
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")


def test_runs_do_not_vanish_with_rays_copy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    in_rays_copy(monkeypatch, tmp_path)
    monkeypatch.setenv("HOME", "/home/someone")
    assert base_dir() == Path("/home/someone/heterofl-ray")
    monkeypatch.setenv("HETEROFL_BASE_DIR", "/project")
    arguments = job_parser(None).parse_args(["--smoke"])
    smoke = job_file("mnist_dynamic").SMOKE
    assert make_config(arguments, "mnist-dynamic", smoke).tracking.root == "/project/runs"
    arguments.set = ["tracking.root=/elsewhere"]
    assert make_config(arguments, "mnist-dynamic", smoke).tracking.root == "/elsewhere"


def test_a_plain_call_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HETEROFL_BASE_DIR", "/project")
    assert base_dir() == Path.cwd()
