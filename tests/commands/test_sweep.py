"""``heterofl-ray sweep``: its mistakes, and what it shows of a sweep's folder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from heterofl_ray import presets
from heterofl_ray.cli import main, make_parser
from heterofl_ray.commands import sweep
from heterofl_ray.tuning.plan import Kept, load_plan

SWEEP = ["sweep", "levels-digits"]

WRONG = [
    (["sweep"], "name one preset or YAML file"),
    (["sweep", "levels-digit"], "did you mean 'levels-digits'?"),
    (["sweep", "digits-dynamic"], "is neither a sweep nor a YAML file"),
    (["sweep", "nowhere.yaml"], "nowhere.yaml: cannot be read"),
    (["sweep", "levels-digits", "levels-mnist"], "name one preset"),
    ([*SWEEP, "--resume", "somewhere"], "name one preset"),
    ([*SWEEP, "--trials", "0"], "sweep.trials=0"),
    ([*SWEEP, "--trials", "many"], "sweep.trials='many'"),
    ([*SWEEP, "--set", "roundz=3"], "did you mean 'rounds'?"),
    ([*SWEEP, "--set", "sweep.samplr=tpe"], "did you mean 'sweep.sampler'?"),
    ([*SWEEP, "--set", "sweep.sampler=tpee"], "did you mean 'tpe'?"),
    ([*SWEEP, "--set", "sweep.space.lrr=[1]"], "unknown setting 'lrr'"),
    ([*SWEEP, "--set", "sweep.space.lr={low: 1, high: 0}"], "there is no valid point"),
    ([*SWEEP, "--set", "sweep.constraints.client_flop=3"], "did you mean 'client_flops'?"),
    ([*SWEEP, "--set", "sweep.objectives=[scores]"], "did you mean 'score'?"),
    ([*SWEEP, "--set", "model=covn"], "did you mean 'conv'?"),
    (["sweep", "--resume", "nowhere"], "nowhere is not the folder of a sweep"),
    (["sweep", "best"], "name one sweep's folder"),
    (["sweep", "best", "nowhere"], "nowhere is not the folder of a sweep"),
]


@pytest.mark.parametrize(("words", "message"), WRONG, ids=lambda value: str(value)[:60])
def test_a_mistake_is_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert message in output.err
    assert output.err.count("\n") == 1


def test_a_run_of_a_sweeps_file_is_told_what_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "my.yaml"
    path.write_text("preset: digits-dynamic\nsweep:\n  space:\n    lr: [0.1]\n")
    assert main(["run", str(path)]) == 2
    assert f"heterofl-ray sweep {path}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [["sweep", "--help"], [*SWEEP, "--set", "sweep.space.lrr=[1]"], ["sweep", "best", "nowhere"]],
    ids=" ".join,
)
def test_help_and_mistakes_need_nothing_heavy(words: list[str]) -> None:
    script = (
        "import sys\n"
        "from heterofl_ray.cli import main\n"
        "try:\n"
        f"    main({words!r})\n"
        "except SystemExit:\n"
        "    pass\n"
        "heavy = [n for n in ('torch', 'ray', 'optuna', 'mlflow', 'pyarrow') if n in sys.modules]\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_naming_a_cluster_leaves_trials_in_one_process() -> None:
    parser = make_parser()
    parsed = parser.parse_args([*SWEEP, "--address", "host:6379", "--trials", "3"])
    plan = load_plan("levels-digits").override(sweep.overrides_of(parsed))
    assert (plan.base.execution.address, plan.base.execution.backend) == ("host:6379", "local")
    assert plan.settings.trials == 3
    both = parser.parse_args([*SWEEP, "--backend", "ray", "--set", "execution.workers=2"])
    plan = load_plan("levels-digits").override(sweep.overrides_of(both))
    assert (plan.base.execution.backend, plan.base.execution.workers) == ("ray", 2)


def trial(number: int, score: float, parameters: float, mix: str, **more: Any) -> dict[str, Any]:
    values = {"score": score, "client_parameters": parameters}
    return {
        "number": number, "state": "complete", "params": {}, "values": values, "spread": {},
        "settings": {"mix": mix, "lr": 0.05}, "by_seed": [score],
        "runs": [f"trials/{number:03d}/digits"],
        "features": {"lr": 0.05 + number / 100, "levels": 2, "share_a": score / 100}, **more,
    }  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, data_root: Path) -> Path:
    """A sweep of which nothing but the files is there."""
    folder = tmp_path / "runs" / "sweep-digits"
    folder.mkdir(parents=True)
    load_plan("levels-digits").write(folder, Kept(str(data_root), folder.name))
    records = {
        "name": "sweep-digits", "data": "digits",
        "objectives": [
            {"name": "score", "about": "score of the global model", "larger": True},
            {"name": "client_parameters", "about": "average client's parameters", "larger": False},
        ],
        "constraints": {"client_flops": "60% of all-large"},
        "front": [0, 2],
        "importance": {"score": {"lr": 0.7, "share_a": 0.3}},
        "trials": [
            trial(0, 90.5, 148700.0, "a-c"),
            trial(1, 80.0, 150000.0, "a"),
            trial(2, 85.0, 30000.0, "b"),
            {"number": 3, "state": "left out", "params": {}, "values": None, "runs": [],
             "settings": {"mix": "a", "lr": 0.1}, "why": "client_flops is 100% of all-large"},
            {"number": 4, "state": "failed", "params": {}, "values": None, "runs": [],
             "settings": {"mix": "c", "lr": 0.1}, "error": "ValueError: <broken>"},
        ],
    }  # fmt: skip
    (folder / "trials.json").write_text(json.dumps(records))
    return folder


def test_best_shows_the_front_and_writes_its_points(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", "best", str(folder)]) == 0
    text = capsys.readouterr().out
    assert "148.7 K" in text
    assert "trials: 3 complete, 1 left out, 1 failed" in text
    assert text.index("a-c") < text.index(" b ")  # the best score first
    config = presets.load(str(folder / "best" / "trial-000.yaml"))
    assert (config.mix, config.lr, config.rounds) == ("a-c", 0.05, 10)
    assert f"heterofl-ray run {folder}/best/trial-000.yaml" in text


def test_best_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "best", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [point["trial"] for point in found["front"]] == [0, 2]
    assert found["trials"] == {"complete": 3, "left out": 1, "failed": 1}
    point = found["front"][1]
    assert point["values"] == {"score": 85.0, "client_parameters": 30000.0}
    assert point["jobs"] == [str(folder / "best" / "trial-002.yaml")]
    assert point["runs"] == [str(folder / "trials/002/digits")]


def test_report_draws_a_sweep(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(folder), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert set(made["figures"]) == {"front", "importance", "coordinates"}
    for paths in made["figures"].values():
        assert all(Path(path).stat().st_size > 1000 for path in paths)
    page = Path(made["report"]).read_text()
    assert "ValueError: &lt;broken&gt;" in page
    assert "<broken>" not in page
    assert "client_flops at most 60% of all-large" in page
    assert 'src="http' not in page


def test_a_report_on_an_unfinished_sweep_says_what_is_missing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = json.loads((folder / "trials.json").read_text())
    records |= {"importance": {}, "trials": records["trials"][3:], "front": []}
    (folder / "trials.json").write_text(json.dumps(records))
    assert main(["report", str(folder)]) == 0
    assert capsys.readouterr().err.count("left out:") == 3
    (folder / "trials.json").unlink()
    assert main(["report", str(folder)]) == 2
    assert "this sweep has no trial yet" in capsys.readouterr().err
