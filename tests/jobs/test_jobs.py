"""The job files: the presets they stand for, their smoke tests, their mistakes."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import heterofl_ray.jobs.series as series
import heterofl_ray.jobs.single as single
from heterofl_ray import presets
from heterofl_ray.cli import main
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data import embedded
from heterofl_ray.data.store import write_dataset
from heterofl_ray.errors import Interrupted
from heterofl_ray.jobs import run_preset, run_series
from heterofl_ray.jobs.calling import base_dir, job_parser, make_config
from heterofl_ray.runner import run

JOBS = Path(__file__).parents[2] / "jobs"
SINGLE = {
    "wikitext_dynamic": "wikitext2-dynamic",
    "wikitext_fix": "wikitext2-fix",
    "mnist_dynamic": "mnist-dynamic",
    "mnist_noniid": "mnist-noniid",
    "cifar10_dynamic": "cifar10-dynamic",
    "cifar10_noniid": "cifar10-noniid",
}
FAST = ["--backend", "local", "--quiet", "--json"]
TINY = [
    *("--set", "rounds=1", "--set", "local_epochs=1", "--set", "clients=20"),
    *("--set", "network.hidden=[8,8]", "--set", "tracking.mlflow=false"),
]


def job_file(name: str) -> ModuleType:
    """The file as a module: what it does when it is run is not done."""
    spec = importlib.util.spec_from_file_location(f"job_{name}", JOBS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def options(*words: str, name: str = "interpolation") -> Namespace:
    parser = job_parser(None)
    for option in ("--figure", "--pairs", "--shares", "--table", "--data", "--mixes"):
        parser.add_argument(option)
    return parser.parse_args(words)


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


# ---- series --------------------------------------------------------------------------------


def test_the_figures_are_ten_pairs_of_models_at_ten_shares() -> None:
    job = job_file("interpolation")
    entries = job.entries(options("--figure", "3"))
    assert len(entries) == 100
    mixes = {entry.settings[0] for entry in entries}
    assert len(mixes) == 90 + 4  # the large model alone is the same run for all its partners
    arguments = options()
    shares = {}
    for entry in entries:
        config = make_config(arguments, entry.preset, entry.smoke, entry.settings)
        assert (config.assignment, config.data, config.rounds) == ("fix", "mnist", 200)
        shares.setdefault(entry.columns["models"], []).append(config.levels.shares[0])
    assert len(shares) == 10
    for each in shares.values():
        assert each == pytest.approx([tenth / 10 for tenth in range(1, 11)])


@pytest.mark.parametrize(
    ("figure", "data", "partition"),
    [
        ("2", "cifar10", "iid"),
        ("4", "wikitext2", "iid"),
        ("5", "mnist", "classes:2"),
        ("6", "cifar10", "classes:2"),
        ("7", "mnist", "classes:2"),
        ("8", "cifar10", "classes:2"),
    ],
)
def test_each_figure_has_its_data(figure: str, data: str, partition: str) -> None:
    entries = job_file("interpolation").entries(options("--figure", figure, "--pairs", "b-e"))
    config = make_config(options(), entries[0].preset, entries[0].smoke, entries[0].settings)
    assert (config.data, config.partition) == (data, partition)
    assert config.mix == "b10-e90"


def ablation(*words: str) -> dict[tuple[str, ...], tuple[ExperimentConfig, Mapping[str, float]]]:
    return {
        tuple(entry.columns.values()): (
            make_config(options(), entry.preset, entry.smoke, entry.settings),
            entry.paper,
        )
        for entry in job_file("ablation").entries(options(*words))
    }


def test_the_ablation_has_every_line_of_both_tables() -> None:
    rows = ablation()
    assert len(rows) == 2 * (17 + 25)
    config, paper = rows["4", "cifar10", "a-e", "sbn", "no", "na"]
    assert (config.network.norm, config.network.scaler, config.loss.masked) == (
        "sbn",
        False,
        "auto",
    )
    assert (config.data, config.partition, config.mix) == ("cifar10", "iid", "a-e")
    assert paper == {"global": 90.1}
    config, paper = rows["5", "mnist", "e", "ln", "na", "yes"]
    assert (config.network.norm, config.network.scaler, config.loss.masked) == ("ln", True, "on")
    assert (config.partition, config.rounds) == ("classes:2", 400)
    assert paper == {"local": 99.3, "global": 94.0}
    config, _ = rows["5", "mnist", "a-e", "none", "yes", "no"]
    assert (config.network.norm, config.loss.masked) == ("none", "off")
    assert len({config.hash() for config, _ in rows.values()}) == len(rows)


def series_words(*words: str) -> list[str]:
    small = ["network.hidden=[8,8]", "clients=20", "local_epochs=1", "rounds=2"]
    sets = [word for text in small for word in ("--set", text)]
    return ["--smoke", *sets, "--backend", "local", *words]


def run_interpolation(*words: str) -> int:
    job = job_file("interpolation")
    parser = job_parser(None)
    parser.add_argument("--figure", default="3")
    parser.add_argument("--pairs")
    parser.add_argument("--shares")
    return run_series("interpolation", parser, job.entries, series_words(*words))


def test_a_series_repeats_nothing_and_compares_all(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_interpolation("--shares", "50,100", "--json", "--quiet") == 0
    first = json.loads(capsys.readouterr().out)
    assert [row["found"] for row in first["runs"]] == [False, False]
    assert Path(first["report"]).is_file()

    began: list[str] = []
    real = series.train

    def noted(config: ExperimentConfig, *rest: Any) -> Any:
        began.append(config.mix)
        return real(config, *rest)

    monkeypatch.setattr(series, "train", noted)
    assert run_interpolation("--shares", "10,50,100") == 0
    shown = capsys.readouterr()
    assert began == ["a10-e90"]
    assert shown.err.count("is there:") == 2
    for words in ("a and e", "10 %", "50 %", "100 %", "interpolation: accuracy"):
        assert words in shown.out

    assert run_interpolation("--shares", "10,50,100", "--json", "--quiet") == 0
    again = json.loads(capsys.readouterr().out)["runs"]
    assert [row["found"] for row in again] == [True] * 3
    assert [row["model_sha256"] for row in again[1:]] == [
        row["model_sha256"] for row in first["runs"]
    ]
    parameters = [row["parameters"] for row in again]
    large, small = parameters[2], (2 * parameters[1] - parameters[2])
    assert parameters[0] == pytest.approx(0.1 * large + 0.9 * small)


def run_ablation(*words: str) -> int:
    parser = job_parser(None)
    for option in ("--table", "--data", "--mixes"):
        parser.add_argument(option)
    small = ["clients=20", "network.hidden=[64,64]", "rounds=1", "local_epochs=1"]
    sets = [word for text in small for word in ("--set", text)]
    entries = job_file("ablation").entries
    return run_series("ablation", parser, entries, [*sets, "--backend", "local", *words])


def test_the_ablations_smoke_test_shows_no_scores_of_other_data(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_ablation("--smoke", "--quiet", "--table", "4,5") == 0
    shown = capsys.readouterr().out
    assert "paper" not in shown
    assert "…" not in shown  # nothing is cut off in 80 columns
    for words in ("digits", "sbn", "none", "masked", "scaler", "local"):
        assert words in shown


def test_the_ablation_prints_the_papers_score_beside_ours(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    draft = embedded.digits()  # under MNIST's name, since MNIST is not here
    draft.info = dataclasses.replace(draft.info, name="mnist")
    write_dataset(tmp_path / "data", draft)
    chosen = ["--table", "5", "--data", "mnist", "--mixes", "e"]
    assert run_ablation("--quiet", "--data-dir", "data", *chosen) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "│" in line]
    assert len(lines) == 7
    cells = [cell.strip() for cell in next(x for x in lines if " ln " in x).split("│")][1:-1]
    assert cells[:6] == ["5", "mnist", "e", "ln", "na", "yes"]
    assert (cells[8], cells[10]) == ("94", "99.3")


def test_a_series_goes_on_with_a_run_that_was_stopped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, data_root: Path
) -> None:
    entry = job_file("interpolation").entries(options("--smoke", "--figure", "3"))[0]
    arguments = job_parser(None).parse_args(series_words())
    config = make_config(arguments, entry.preset, entry.smoke, entry.settings)

    class Stopping(series_progress()):  # type: ignore[misc]
        def update(self, record: Any, row: Any) -> None:
            raise Interrupted(130)

    with pytest.raises(Interrupted):
        run(config, progress=Stopping())
    finished, stopped = series.find_runs(config, data_root)
    assert finished is None
    assert stopped is not None
    assert run_interpolation("--shares", "10", "--json") == 0
    output = capsys.readouterr()
    assert f"goes on in {stopped}" in output.err
    row = json.loads(output.out)["runs"][0]
    assert row["run_dir"] == str(stopped)
    whole = run(config.override(["tracking.root=other"]))
    assert row["model_sha256"] == whole.summary["model_sha256"]


def series_progress() -> type:
    from heterofl_ray.progress import Silent

    return Silent


def test_a_run_of_other_settings_or_data_is_another_run(tiny: ExperimentConfig) -> None:
    root = Path("data").absolute()
    config = tiny.override([f"tracking.root={Path.cwd() / 'runs'}"])
    run(config, data_dir=root)
    finished, _ = series.find_runs(config, root)
    assert finished is not None
    assert series.find_runs(config.override(["seed=1"]), root) == (None, None)
    assert series.find_runs(config, root.parent) == (None, None)
    assert series.find_runs(config.override(["execution.workers=7"]), root)[0] == finished


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--pairs", "e-a"], "--pairs='e-a' is not valid"),
        (["--shares", "15"], "--shares='15' is not valid"),
    ],
)
def test_mistakes_of_a_series(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_interpolation(*words, "--quiet") == 2
    output = capsys.readouterr()
    assert (output.out, output.err.count("\n")) == ("", 1)
    assert says in output.err
