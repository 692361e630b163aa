"""The searcher with Optuna's storage, driven as Tune drives it, without a cluster."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from optuna.storages import BaseStorage, InMemoryStorage
from optuna.trial import FrozenTrial, TrialState

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.runner import run
from heterofl_ray.tuning import search as searching
from heterofl_ray.tuning.plan import SweepPlan, make_plan
from heterofl_ray.tuning.pricing import Pricing
from heterofl_ray.tuning.probe import find_point
from heterofl_ray.tuning.records import collect
from heterofl_ray.tuning.search import Search
from heterofl_ray.tuning.study import open_storage
from heterofl_ray.tuning.trials import ERROR, trial_folder

from .conftest import BASE, MakePlan

Score = Callable[[ExperimentConfig], float]


@pytest.fixture
def search(tmp_path: Path, data_root: Path) -> Callable[..., Search]:
    """A searcher in a folder; a second one of the same folder goes on."""

    def make(
        plan: SweepPlan, name: str = "sweep", known: int = 0, storage: BaseStorage | None = None
    ) -> Search:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        storage = storage or open_storage(plan.settings, folder)
        return Search(plan, Pricing(plan, data_root), storage, name, known, folder, lambda _: None)

    return make


def parameters(config: ExperimentConfig) -> float:
    """A score that needs no training: it falls with the distance from a third at level a."""
    shares = dict(zip((x.name for x in config.levels.levels), config.levels.shares, strict=True))
    return 100 - abs(shares.get("a", 0) - 1 / 3)


def answer(score: float, price: float = 0.0) -> dict[str, Any]:
    measured = {"score": score, "client_parameters": price}
    text = json.dumps({"measured": measured, "spread": {}, "by_seed": [score], "runs": []})
    return {"round": 2, "score": score, "answer": text}


def drive(search: Search, most: int, score: Score = parameters) -> list[ExperimentConfig]:
    """Up to so many trials, one after another, as Tune would."""
    done = []
    for place in range(most):
        asked = search.suggest(f"trial-{place}")
        if isinstance(asked, str):
            assert asked == Search.FINISHED
            break
        point = json.loads(asked["point"])
        config = ExperimentConfig.from_dict(point["config"])
        price = point["price"]["client"]["client_parameters"]
        search.on_trial_complete(f"trial-{place}", answer(score(config), price))
        done.append(config)
    return done


def trials(search: Search, *states: TrialState) -> list[FrozenTrial]:
    return search.study.get_trials(states=states or None)


@pytest.mark.parametrize("sampler", ["tpe", "nsga2", "gp", "random"])
def test_every_sampler_keeps_to_the_constraints(
    sampler: str, plan: MakePlan, search: Callable[..., Search]
) -> None:
    found = search(plan(sampler=sampler, trials=6, constraints={"client_parameters": "70%"}))
    done = drive(found, 6)
    assert len(done) == len({config.hash() for config in done}) == 6
    complete, pruned = trials(found, TrialState.COMPLETE), trials(found, TrialState.PRUNED)
    assert len(complete) == 6
    for trial in complete:
        assert trial.constraints["client_parameters"] <= 0
        assert trial.values[1] <= 427  # of 610
    assert pruned, "some points must have been too expensive"
    for trial in pruned:
        assert (
            trial.constraints["client_parameters"] > 0 or "same settings" in trial.user_attrs["why"]
        )
    assert any("at most 70% of all-large" in trial.user_attrs["why"] for trial in pruned)


def test_a_grid_is_handed_out_once_and_then_ends(
    plan: MakePlan, search: Callable[..., Search]
) -> None:
    space = {"levels": [2], "shares": {"step": 0.25, "drop": 0}}
    found = search(plan(sampler="grid", space=space, constraints={"client_parameters": 500}))
    for point in found._plan.space.grid():
        found.study.enqueue_trial(point)
    done = drive(found, 100)
    # a alone has 610, three quarters of a 535
    assert [config.mix for config in done] == ["a-b", "a1-b3", "b"]
    assert found.ended == "every point of the grid is done"
    assert len(trials(found, TrialState.PRUNED)) == 2


def test_no_point_is_trained_twice(
    plan: MakePlan, search: Callable[..., Search], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "MOST_DRAWS", 20)
    found = search(plan(space={"levels": [1, 2]}))  # two points in all
    done = drive(found, 10)
    assert {config.mix for config in done} == {"a", "a-b"}
    assert len(done) == 2
    assert "was new" in found.ended
    again = trials(found, TrialState.PRUNED)
    assert {trial.user_attrs["why"] for trial in again} <= {
        f"the same settings as trial {trial.number}" for trial in trials(found, TrialState.COMPLETE)
    }


def test_what_was_cut_off_is_handed_out_again_and_draws_are_new(
    plan: MakePlan, search: Callable[..., Search]
) -> None:
    found = plan(sampler="random", trials=6)
    first = search(found)
    drive(first, 2)
    begun = first.suggest("cut off")
    assert isinstance(begun, dict)
    known = len(trials(first))
    second = search(found, known=known)
    again = second.suggest("again")
    assert again == begun
    second.on_trial_complete("again", answer(1.0))
    drive(second, 3)
    complete = trials(second, TrialState.COMPLETE)
    assert len(complete) == 6
    assert len({trial.user_attrs["hash"] for trial in complete}) == 6
    drawn = [json.dumps(trial.params, sort_keys=True) for trial in trials(second)]
    assert len(set(drawn)) >= len(drawn) - 1  # but for mixes of level a alone


def test_how_trials_end_is_in_the_storage(
    plan: MakePlan, search: Callable[..., Search], tmp_path: Path
) -> None:
    found = search(plan(sampler="random"))
    asked = [found.suggest(name) for name in ("failed", "died", "stopped", "diverged")]
    numbers = [each["trial"] for each in asked if isinstance(each, dict)]
    place = trial_folder(tmp_path / "sweep", numbers[0])
    place.mkdir(parents=True)
    (place / ERROR).write_text("Traceback …\nValueError: broken\n")
    found.on_trial_complete("failed", error=True)
    found.on_trial_complete("died", error=True)
    found.on_trial_complete("stopped", {"round": 1, "score": 3.0})
    found.on_trial_complete("diverged", answer(float("nan")))
    failed, died, stopped, diverged = (found.study.trials[number] for number in numbers)
    assert (failed.state, failed.user_attrs["error"]) == (TrialState.FAIL, "ValueError: broken")
    assert (died.state, died.user_attrs["error"]) == (TrialState.FAIL, "its process died")
    assert stopped.state == TrialState.PRUNED
    assert stopped.user_attrs["why"] == "ended early, after round 1"
    assert (diverged.state, diverged.user_attrs["error"]) == (
        TrialState.FAIL,
        "score is not a number",
    )
    states = {t["number"]: t["state"] for t in collect(found.study, found._plan)["trials"]}
    assert [states[number] for number in numbers] == ["failed", "failed", "stopped", "failed"]


def test_with_one_objective_optuna_sees_scores_on_the_way(
    plan: MakePlan, search: Callable[..., Search]
) -> None:
    found = search(plan(objectives=["score"]))
    asked = found.suggest("one")
    assert isinstance(asked, dict)
    found.on_trial_result("one", {"round": 1, "score": 40.0})
    found.on_trial_complete("one", {"round": 1, "score": 40.0})
    assert found.study.trials[asked["trial"]].intermediate_values == {1: 40.0}


def test_a_snapshot_of_tune_holds_nothing(plan: MakePlan, search: Callable[..., Search]) -> None:
    found = search(plan())
    assert len(pickle.dumps(found)) < 200


def test_a_storage_that_cannot_be_opened_is_named(plan: MakePlan, tmp_path: Path) -> None:
    for url, reason in (
        ("sqlite:////nowhere/at/all.db", "unable to open"),
        ("nonsense", "sweep.storage='nonsense'"),
        ("postgresql://me:secret@localhost:1/x", "postgresql://localhost:1/x"),
    ):
        with pytest.raises(ValueError, match=r"sweep\.storage") as error:
            open_storage(plan(storage=url).settings, tmp_path)
        assert reason in str(error.value)
        assert "secret" not in str(error.value)


# ---- before anything is trained --------------------------------------------------------------


def test_a_constraint_that_nothing_meets_is_an_error(plan: MakePlan, data_root: Path) -> None:
    found = plan(constraints={"client_parameters": 150})  # level c alone has 160
    with pytest.raises(ValueError, match=r"sweep\.constraints: none of 200 points meets") as error:
        find_point(found, Pricing(found, data_root))
    assert "the nearest: client_parameters is 160, at most 150" in str(error.value)


def test_a_rare_point_is_found_and_given_to_the_sweep(plan: MakePlan, data_root: Path) -> None:
    # only c alone, or nearly: one draw in some hundreds
    found = plan(constraints={"client_parameters": 165}, space={"levels": [3], "shares": True})
    point = find_point(found, Pricing(found, data_root))
    assert point is not None
    assert set(point) == {"shares_1", "shares_2"}
    assert find_point(plan(), Pricing(plan(), data_root)) is None


def test_a_space_without_a_valid_point_is_an_error(plan: MakePlan, data_root: Path) -> None:
    found = plan(space={"clients": [20000, 30000]})
    with pytest.raises(
        ValueError, match=r"sweep\.space: none of 200 points can be trained"
    ) as error:
        find_point(found, Pricing(found, data_root))
    assert "clients=" in str(error.value)


# ---- the search is worth it --------------------------------------------------------------------


@pytest.mark.slow
def test_tpe_finds_the_best_mix_in_a_third_of_the_grids_trials(
    search: Callable[..., Search], tmp_path: Path
) -> None:
    """Real trainings: all mixes of three levels in fifths with three learning rates.

    Few points are within one percent of the best. Sampling is seeded, and so is training.
    """
    base = {
        **BASE, "mix": "a-c-e", "clients": 20, "fraction": 0.5, "rounds": 4, "evaluate_every": 0,
        "network": {"hidden": [32]}, "evaluation": {"levels": "never"}, "checkpoint": {"every": 0},
        "tracking": {"root": str(tmp_path / "runs")},
    }  # fmt: skip
    sweep = {
        "objectives": ["score"],
        "space": {"shares": {"step": 0.2, "drop": 0}, "lr": [0.01, 0.05, 0.2]},
        "constraints": {"client_parameters": "70%"},
    }
    scores: dict[str, float] = {}

    def train(config: ExperimentConfig) -> float:
        if config.hash() not in scores:
            scores[config.hash()] = run(config).summary["global"]["accuracy"]
        return scores[config.hash()]

    every = make_plan({**base, "sweep": {**sweep, "sampler": "grid"}}, "here")
    grid = search(every, "grid", storage=InMemoryStorage())
    for point in every.space.grid():
        grid.study.enqueue_trial(point)
    size = len(drive(grid, 1000, train))
    best = grid.study.best_value
    near = sum(score >= 0.99 * best for score in scores.values())
    assert size == len(scores) >= 40
    assert near <= size // 10, "otherwise anything would find it"

    third = size // 3
    found = []
    for seed in range(5):
        settings = {**sweep, "sampler": "tpe", "seed": seed, "trials": third}
        plan = make_plan({**base, "sweep": settings}, "here")
        tpe = search(plan, f"tpe-{seed}", storage=InMemoryStorage())
        assert len(drive(tpe, third, train)) == third
        found.append(tpe.study.best_value / best)
    assert len(scores) == size  # nothing outside of the grid
    assert sorted(found)[2] >= 0.99  # the median of five searches
