"""Series of runs: the paper's figures and ablation tables, resumed and not repeated."""

from __future__ import annotations

import dataclasses
import json
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import heterofl_ray.commands.once as once
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data import embedded
from heterofl_ray.data.store import write_dataset
from heterofl_ray.errors import Interrupted
from heterofl_ray.jobs import run_series
from heterofl_ray.jobs.calling import job_parser, make_config
from heterofl_ray.runner import run
from tests.jobs.files import job_file


def options(*words: str, name: str = "interpolation") -> Namespace:
    parser = job_parser(None)
    for option in ("--figure", "--pairs", "--shares", "--table", "--data", "--mixes"):
        parser.add_argument(option)
    return parser.parse_args(words)


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
        "auto",  # sbn, the model's own
        False,
        "auto",
    )
    assert (config.data, config.partition, config.mix) == ("cifar10", "iid", "a-e")
    assert paper == {"global": 90.1}
    config, paper = rows["5", "mnist", "e", "ln", "na", "yes"]
    assert (config.network.norm, config.network.scaler, config.loss.masked) == ("ln", True, "auto")
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
    real = once.train

    def noted(config: ExperimentConfig, *rest: Any) -> Any:
        began.append(config.mix)
        return real(config, *rest)

    monkeypatch.setattr(once, "train", noted)
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
    finished, stopped = once.find_runs(config, data_root)
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
    finished, _ = once.find_runs(config, root)
    assert finished is not None
    assert once.find_runs(config.override(["seed=1"]), root) == (None, None)
    assert once.find_runs(config, root.parent) == (None, None)
    assert once.find_runs(config.override(["execution.workers=7"]), root)[0] == finished


def test_a_run_made_when_a_default_was_another_is_another_run(tiny: ExperimentConfig) -> None:
    root = Path("data").absolute()
    config = tiny.override([f"tracking.root={Path.cwd() / 'runs'}"])
    finished = Path(run(config, data_dir=root).summary["run_dir"])
    settings = finished / "config.yaml"
    assert "momentum: 0.9\n" in settings.read_text()
    settings.write_text(settings.read_text().replace("momentum: 0.9\n", "momentum: 0.8\n"))
    assert once.find_runs(config, root) == (None, None)


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
