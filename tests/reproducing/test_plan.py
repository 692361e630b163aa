"""Which runs there are for a table, and what is left out for want of data or time."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofl_ray import presets
from heterofl_ray.errors import ConfigError, DataError
from heterofl_ray.reproducing.budget import LEAST, Choice, Guess, fit, nominal_seconds
from heterofl_ray.reproducing.catalog import exhibit
from heterofl_ray.reproducing.plan import Piece, ReproductionPlan, command, shortened


def plan(name: str = "table7", rows: str = "e", **changes: object) -> ReproductionPlan:
    usual: dict[str, object] = {"seeds": 1, "rounds": None, "overrides": (), "out": Path("/out")}
    return ReproductionPlan(exhibit(name).choose(rows, None), **{**usual, **changes})  # type: ignore[arg-type]


def test_local_and_global_scores_are_of_one_run() -> None:
    pieces = plan(rows="d-e,e").pieces()
    assert [piece.name for piece in pieces] == ["d-e iid", "d-e local", "e iid", "e local"]
    assert {piece.config.tracking.root for piece in pieces} == {"/out/runs"}


def test_rows_that_several_tables_show_are_the_same_run() -> None:
    keys = {piece.key for piece in plan("table7", "e").pieces()}
    assert plan("table4", "e:sbn").pieces()[0].key in keys
    assert plan("table1", "e").pieces()[0].key in keys


def test_seeds_follow_each_other() -> None:
    pieces = plan(seeds=3).pieces()
    assert [piece.config.seed for piece in pieces] == [0, 0, 1, 1, 2, 2]
    assert [piece.name for piece in pieces][2:4] == ["e iid seed 1", "e local seed 1"]
    assert len({piece.key for piece in pieces}) == 6


def test_a_shorter_run_has_its_schedule_in_the_same_places() -> None:
    cifar = presets.load("cifar10-dynamic")  # 400 rounds, falls after 150 and 250
    assert shortened(cifar, 40).optimizer.milestones == (15, 25)
    assert shortened(cifar, 800).optimizer.milestones == (300, 500)
    assert shortened(cifar, 2).optimizer.milestones == (1,)
    assert shortened(cifar, 1).optimizer.milestones == ()
    assert plan(rounds=20).pieces()[0].config.optimizer.milestones == (10,)


def test_a_runs_command_gives_its_config_again() -> None:
    for each in (plan(), plan("table5", "e:gn", rounds=20, seeds=2), plan("figure3", "a-e:30")):
        cells = [cell for row in each.exhibit.rows for cell in row.cells]
        for cell in cells:
            for seed in range(each.seeds):
                config = each.config(cell, seed)
                words = command(config, cell).split()
                assert words[:3] == ["heterofl-ray", "run", cell.preset]
                typed = presets.load(words[2]).override(words[4::2])
                assert typed.hash() == config.hash()


def test_data_that_is_not_there_is_left_out(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="table7: mnist is not there yet"):
        plan().without_missing_data(tmp_path)
    (tmp_path / "raw" / "mnist").mkdir(parents=True)
    (tmp_path / "raw" / "mnist" / "files.gz").touch()
    found, reasons = plan("table4", "e:sbn").without_missing_data(tmp_path)
    assert found.exhibit.columns == ["mnist"]
    assert list(reasons) == ["cifar10"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"seeds": 0}, "--seeds=0 is not valid"), ({"rounds": 0}, "--rounds=0 is not valid")],
)
def test_counts_below_one_are_refused(changes: dict[str, int], says: str) -> None:
    with pytest.raises(ConfigError) as error:
        plan(**changes)
    assert says in str(error.value)


def guesses(seconds: list[float], rounds: int = 100) -> list[Guess]:
    config = presets.load("mnist-dynamic").override([f"rounds={rounds}"])
    named = enumerate(seconds)
    return [Guess(Piece(config, f"run {n}", f"key {n}"), each) for n, each in named]


def test_a_budget_by_hand() -> None:
    """100 seconds: 10 and 60 fit, of 90 a third does, 200 does not."""
    choice = fit(guesses([60, 200, 10, 90]), 100)
    assert [piece.name for piece in choice.chosen] == ["run 2", "run 0", "run 3"]
    assert choice.shortened == {"run 3": 33}
    assert choice.chosen[2].config.rounds == 33
    assert choice.chosen[2].key == "key 3"
    assert choice.left_out == {"run 1": pytest.approx(200 / 60)}


def test_too_few_rounds_are_not_worth_it() -> None:
    assert fit(guesses([1000]), 99).chosen == []
    assert fit(guesses([1000]), 100).shortened == {"run 0": 10}


def test_what_is_there_already_costs_nothing() -> None:
    assert len(fit(guesses([0.0, 0.0, 50]), 50).chosen) == 3


@given(st.lists(st.floats(0, 1e4), min_size=1, max_size=12), st.floats(1, 1e4))
def test_no_budget_is_exceeded_and_none_is_lost(seconds: list[float], budget: float) -> None:
    every = guesses(seconds)
    choice: Choice = fit(every, budget)
    costs = {guess.piece.name: guess.seconds for guess in every}
    spent = sum(costs[piece.name] * piece.config.rounds / 100 for piece in choice.chosen)
    assert spent <= budget * (1 + 1e-9)
    assert {piece.name for piece in choice.chosen} | set(choice.left_out) == set(costs)
    assert all(rounds >= 100 * LEAST for rounds in choice.shortened.values())
    longest = max((costs[piece.name] for piece in choice.chosen), default=0.0)
    assert all(60 * minutes >= longest * (1 - 1e-9) for minutes in choice.left_out.values())


def test_a_guess_grows_with_rounds_levels_epochs_and_tests(data_root: Path) -> None:
    def guess(*settings: str) -> float:
        base = presets.load("digits-dynamic").override(["mix=e", "evaluate_every=30"])
        return nominal_seconds(base.override(settings), data_root)

    once = guess()
    assert guess("evaluate_every=0") == pytest.approx(once)
    assert guess("rounds=60") == pytest.approx(2 * once)
    test = guess("evaluate_every=15") - once
    assert test > 0
    assert guess("local_epochs=10") == pytest.approx(2 * (once - test) + test)
    assert guess("mix=a") > 2 * once
