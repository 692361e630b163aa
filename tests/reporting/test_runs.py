"""Reading runs, finished or not, and finding them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from heterofl_ray import checkpoint
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import DataError
from heterofl_ray.reporting.folders import find_runs
from heterofl_ray.reporting.runs import METRICS, Missing, Run, open_run
from heterofl_ray.reporting.tables import progress_text
from heterofl_ray.runner import run
from tests.reporting.conftest import COLUMNS, MakeRun


def test_a_finished_run(make_run: MakeRun) -> None:
    found = open_run(make_run())
    assert found.name == "one"
    assert found.finished
    assert found.rounds == 3
    assert found.seconds == 9.5
    assert found.updates() == {"a": 3, "b": 3}
    assert found.metric is METRICS[0]
    assert found.score() == 80.0
    assert found.score("local") == 90.0
    assert found.best == (3, 80.0)
    assert found.level_scores() == {"a": 80.0, "b": 70.0}
    assert found.costs()["b"].parameters == 310
    assert found.average_costs().parameters == 460
    assert found.curve("global_accuracy").rounds == [1, 3]


def test_the_best_perplexity_is_the_lowest(make_run: MakeRun) -> None:
    columns = {"round": [1, 2, 3], "global_perplexity": [90.0, 30.0, 40.0]}
    found = open_run(make_run(columns=columns, result=None))
    assert found.best == (2, 30.0)
    assert found.score() == 40.0
    assert found.score("local") is None


def test_numbers_that_are_none_are_passed_over(make_run: MakeRun) -> None:
    columns = {"round": [1, 2, 3], "global_accuracy": [10.0, float("nan"), float("inf")]}
    found = open_run(make_run(columns=columns, result=None))
    assert found.best == (1, 10.0)
    assert found.score() == 10.0


def test_an_unfinished_run_is_read_as_far_as_it_goes(make_run: MakeRun) -> None:
    half = {name: values[:2] for name, values in COLUMNS.items()}
    found = open_run(make_run(columns=half, result=None))
    assert progress_text(found) == "unfinished, 2 of 3 rounds"
    assert found.seconds == 5.0
    assert found.level_scores() == {"a": 50.0}


def test_a_run_with_checkpoints_alone(make_run: MakeRun) -> None:
    folder = make_run(result=None)
    (folder / "history.parquet").unlink()
    place = folder / "checkpoints"
    for number in (1, 2):
        rows = [{"round": t, "clients_a": 2, "seconds": 1.0} for t in range(1, number + 1)]
        progress = checkpoint.Progress(number, "x", rows)
        checkpoint.write({"w": torch.zeros(1)}, place, progress, keep=2, best=False)
    assert open_run(folder).updates() == {"a": 4, "b": 0}
    (place / "round-000002" / "manifest.json").write_text("{")
    assert open_run(folder).rounds == 1  # the one before it
    (place / "round-000001" / "manifest.json").write_text("{")
    assert open_run(folder).rounds == 0


def test_the_models_shape_comes_from_the_data_where_there_is_no_result(
    tiny: ExperimentConfig, data_root: Path
) -> None:
    folder = Path(run(tiny).summary["run_dir"])
    whole = open_run(folder)
    (folder / "result.json").unlink()
    assert open_run(folder).spec == whole.spec


def test_costs_of_a_model_nobody_knows_here_are_missing(make_run: MakeRun) -> None:
    found = open_run(make_run(settings={"model": "my-net"}))
    with pytest.raises(Missing, match="cannot be built here"):
        found.costs()


def test_costs_of_a_model_that_cannot_run_are_missing(known_run: Callable[..., Run]) -> None:
    with pytest.raises(Missing, match="cannot be measured"):
        known_run(model="conv").costs()  # 64 features are no image


def test_runs_are_found_at_any_depth_each_once(make_run: MakeRun, tmp_path: Path) -> None:
    folders = [make_run("x"), make_run("deep/er/y"), make_run("x2")]
    (tmp_path / "runs" / "empty").mkdir()
    foreign = tmp_path / "runs" / "foreign"
    foreign.mkdir()
    (foreign / "config.yaml").write_text("port: 80\n")
    make_run("mlartifacts/copy")
    assert find_runs([tmp_path / "runs", folders[0]]) == [folders[1], folders[0], folders[2]]
    assert find_runs([folders[2], folders[0], folders[2]]) == [folders[2], folders[0]]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.yaml", "mix: zz\n"),
        ("config.yaml", "- 1\n"),
        ("result.json", "{"),
        ("result.json", "[]"),
        ("history.parquet", "no table"),
    ],
)
def test_a_damaged_file_is_named(make_run: MakeRun, name: str, content: str) -> None:
    folder = make_run()
    (folder / name).write_text(content)
    with pytest.raises(DataError, match=str(folder)):
        open_run(folder)


def test_the_result_of_a_real_run_agrees(tiny: ExperimentConfig) -> None:
    folder = Path(run(tiny).summary["run_dir"])
    summary = json.loads((folder / "result.json").read_text())
    found = open_run(folder)
    assert found.score() == summary["global"]["accuracy"]
    assert list(found.level_scores()) == ["a", "c"]
    assert sum(found.updates().values()) == tiny.rounds * tiny.cohort_size
