"""``heterofl-ray compare``: figures over seeds, nothing done twice, mistakes of one line."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import heterofl_ray.commands.once as once
from heterofl_ray.cli import main
from heterofl_ray.commands.compare import show
from heterofl_ray.comparing.plan import USUAL, ComparisonPlan
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import Interrupted
from heterofl_ray.models.costs import model_costs
from heterofl_ray.reporting.methods import Measured
from heterofl_ray.result import RunResult

TINY = [
    *("--set", "rounds=1", "--set", "local_epochs=1", "--set", "clients=20", "--set", "mix=a-c"),
    *("--set", "network.hidden=[8,8]", "--set", "fraction=0.2", "--quiet"),
]


def compare(*words: str) -> int:
    return main(["compare", "methods-digits", *TINY, *words])


def test_the_spread_is_the_samples() -> None:
    measured = Measured([1.0, 2.0, 6.0])
    assert measured.mean == 3.0
    assert measured.spread == pytest.approx(7**0.5)  # (4 + 1 + 9) / 2
    assert Measured([5.0]).spread is None


def test_a_table_and_json_of_two_methods_and_nothing_is_repeated(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = ["--methods", "fedavg-small,dropweak", "--seeds", "2"]
    assert compare(*chosen, "--json") == 0
    output = capsys.readouterr()
    told = json.loads(output.out)
    assert output.err == ""
    assert (told["seeds"], told["metric"], told["found"], told["matched"]) == (
        [0, 1],
        "accuracy",
        0,
        None,
    )
    small, strong = told["methods"]
    assert (small["name"], small["method"], small["mix"]) == ("fedavg-small", "allsmall", "c")
    for row in told["methods"]:
        results = [RunResult.open(Path(folder)) for folder in row["runs"]]
        assert [result.config.seed for result in results] == [0, 1]
        assert {result.config.method for result in results} == {row["method"]}
        first, second = (result.summary["global"]["accuracy"] for result in results)
        assert row["global"]["values"] == [first, second]
        assert row["global"]["mean"] == pytest.approx((first + second) / 2)
        assert row["global"]["spread"] == pytest.approx(abs(first - second) / 2**0.5)
        moved = [r.summary["megabytes_down"] + r.summary["megabytes_up"] for r in results]
        assert row["megabytes"]["values"] == moved
    spec = RunResult.open(Path(strong["runs"][0])).spec
    assert small["client_parameters"]["mean"] == model_costs(spec, 0.25).parameters
    assert strong["client_parameters"]["mean"] == model_costs(spec, 1.0).parameters
    assert Path(told["report"]).is_file()
    assert Path(told["figure"]).stat().st_size > 10_000
    assert 'id="methods-' in Path(told["report"]).read_text()

    began: list[str] = []
    real = once.train

    def noted(config: ExperimentConfig, *rest: Any) -> RunResult:
        began.append(f"{config.method} {config.seed}")
        return real(config, *rest)

    monkeypatch.setattr(once, "train", noted)
    assert compare("--methods", "fedavg-small,dropweak,standalone", "--seeds", "2") == 0
    shown = capsys.readouterr().out
    assert began == ["standalone 0", "standalone 1"]
    mean, spread = small["global"]["mean"], small["global"]["spread"]
    assert f"{mean:.2f} ± {spread:.2f}" in shown
    for words in ("standalone", "client parameters", "MB moved", "over 2 seeds", "methods.png"):
        assert words in shown


def test_one_size_methods_get_the_width_that_costs_what_the_mix_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert compare(*("--set", "mix=a1-b1-c8", "--methods", "heterofl,fedavg"), "--json",
                   *("--seeds", "1", "--match", "parameters")) == 0  # fmt: skip
    told = json.loads(capsys.readouterr().out)
    spec = RunResult.open(Path(told["methods"][0]["runs"][0])).spec
    large, half, small = (model_costs(spec, rate).parameters for rate in (1.0, 0.5, 0.25))
    mean = 0.1 * large + 0.1 * half + 0.8 * small
    matched, fedavg = told["matched"], told["methods"][1]
    assert matched["mean"] == pytest.approx(mean)
    assert (matched["cost"], matched["of"], matched["methods"]) == (
        "parameters",
        "heterofl",
        ["fedavg"],
    )
    assert float(fedavg["mix"]) == matched["rate"]
    assert fedavg["client_parameters"]["mean"] == matched["value"]
    assert matched["value"] == model_costs(spec, 3 / 8).parameters  # of eight channels
    show(told, as_json=False)
    shown = capsys.readouterr().out
    assert f"matched by parameters: fedavg with rate {matched['rate']:g} (" in shown
    assert f"{matched['value'] / mean - 1:+.1%})" in shown


def test_participants_tested_on_other_classes_are_pointed_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    few = ["fedmd.participants=[mlp:8, mlp:4]", "fedmd.pretrain_epochs=1", "fedmd.private_epochs=1"]
    words = [word for one in few for word in ("--set", one)]
    assert compare(*words, "--methods", "heterofl,fedmd", "--seeds", "1", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    plain, own = told["methods"]
    assert plain["note"] is None
    history = RunResult.open(Path(own["runs"][0])).history
    assert own["gflops"]["mean"] == sum(history["client_gflops"].to_pylist()) > 0
    show(told, as_json=False)
    shown = capsys.readouterr().out
    assert "GFLOPs" in shown
    assert "fedmd: 2 participants with models of their own, tested on their private" in shown
    assert "heterofl: " not in shown


def test_the_usual_methods_and_seeds_from_the_configs_own(tiny: ExperimentConfig) -> None:
    plan = ComparisonPlan.of(tiny.override(["seed=5"]), None, 3)
    assert (plan.methods, plan.seeds) == (USUAL, (5, 6, 7))
    assert ComparisonPlan.of(tiny, None, 3, "flops").methods == (*USUAL, "fedavg")
    config = plan.config("fedavg-large", 6)
    assert (config.method, config.seed) == ("alllarge", 6)
    more = ComparisonPlan.of(tiny.override(["seed=5", "execution.workers=2"]), "local", 9)
    assert more.folder == plan.folder
    assert ComparisonPlan.of(tiny, None, 3).folder != plan.folder


def test_stopped_it_says_how_to_go_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: Any) -> RunResult:
        raise Interrupted(130)

    monkeypatch.setattr(once, "train", stopped)
    assert compare("--seeds", "1") == 130
    assert "the same command goes on" in capsys.readouterr().err


def test_its_runs_are_nested_in_mlflow(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HETEROFL_MLFLOW", "1")
    assert compare("--seeds", "1", "--methods", "heterofl,random", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    with closing(sqlite3.connect("runs/mlflow.db")) as database:
        runs = dict(database.execute("select run_uuid, name from runs where status='FINISHED'"))
        query = "select run_uuid, value from tags where key='mlflow.parentRunId'"
        parents = dict(database.execute(query))
    nested = {Path(run).name for row in told["methods"] for run in row["runs"]}
    (parent,) = set(parents.values())
    assert {runs[run] for run in parents} == nested
    assert runs[parent] == Path(told["comparison_dir"]).name
    (kept,) = Path("runs/mlartifacts").glob(f"{parent}/artifacts/comparison.json")
    assert json.loads(kept.read_text()) == told


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--methods", "heterofI"], "--methods='heterofI' is not valid"),
        (["--methods", "fedavg-small,allsmall"], "names a method twice"),
        (["--seeds", "0"], "--seeds=0 is not valid: must be 1 or more"),
        (["--seeds", "two"], "--seeds: invalid int value: 'two'"),
        (["--match", "flop"], "did you mean 'flops'?"),
        (["--match", "flops", "--methods", "heterofl"], "can only change fedavg or standalone"),
        (["--match", "bytes", "--methods", "standalone"], "can only change fedavg; name one"),
        (["--set", "method=fedavg"], "named with --methods"),
        (["--set", "rouds=3"], "did you mean 'rounds'?"),
    ],
)
def test_mistakes_are_one_line(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = compare(*words)
    except SystemExit as stop:
        code = stop.code  # type: ignore[assignment]
    output = capsys.readouterr()
    assert (code, output.out, output.err.count("\n")) == (2, "", 1)
    assert says in output.err
    assert not Path("runs").exists()
