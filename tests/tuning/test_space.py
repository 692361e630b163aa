"""The search space: what a file may say, what becomes of it, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from heterofl_ray.errors import ConfigError
from heterofl_ray.tuning.plan import load_plan, make_plan
from heterofl_ray.tuning.presets import SWEEPS

from .conftest import BASE, SWEEP, MakePlan, Told


def test_settings_of_every_kind_are_drawn(plan: MakePlan) -> None:
    space = plan(
        space={
            "shrink": {"low": 0.3, "high": 0.7},
            "lr": {"low": 0.01, "high": 0.1, "log": True},
            "batch_size": {"low": 5, "high": 20, "step": 5},
            "assignment": ["dynamic", "fix"],
            "network.scaler": [True, False],
            "network.hidden": [[8], [16, 16]],
        }
    ).space
    answers = {
        "shrink": 0.4, "lr": 0.02, "batch_size": 10, "assignment": "fix",
        "network.scaler": False, "network.hidden": "[16, 16]",
    }  # fmt: skip
    told = Told(**answers)
    assert space.suggest(told) == {**answers, "network.hidden": (16, 16)}
    assert told.asked["shrink"] == (0.3, 0.7, None, False)
    assert told.asked["lr"] == (0.01, 0.1, None, True)
    assert told.asked["batch_size"] == (5, 20, 5, False)
    assert told.asked["network.hidden"] == ["[8]", "[16, 16]"]


def test_levels_and_shares_make_a_mix(plan: MakePlan) -> None:
    space = plan().space
    told = Told(levels=3, shares_1=0.75, shares_2=0.5)
    assert space.suggest(told) == {"mix": "a50-b25-c25"}
    assert told.asked["levels"] == (1, 3, 1, False)
    assert set(told.asked) == {"levels", "shares_1", "shares_2"}
    one = Told(levels=1)
    assert space.suggest(one) == {"mix": "a"}
    assert set(one.asked) == {"levels"}  # a mix of one level has no shares


def test_a_small_share_is_dropped(plan: MakePlan) -> None:
    space = plan(space={"shares": {"drop": 0.2}}).space
    assert space.suggest(Told(shares_1=0.15)) == {"mix": "b"}
    assert space.suggest(Told(shares_1=0.25)) == {"mix": "a25-b75"}


def test_explicit_rates(plan: MakePlan) -> None:
    space = plan(space={"rates": [[0.4, 1.0], [1, 0.5, 0.1]], "shares": True}).space
    told = Told(rates="1.0/0.4", shares_1=0.3)
    assert space.suggest(told) == {"mix": "1.0:30,0.4:70"}
    assert told.asked["rates"] == ["1.0/0.4", "1.0/0.5/0.1"]
    equal = plan(space={"rates": [[0.4, 1.0]]}).space
    assert equal.suggest(Told()) == {"mix": "1.0,0.4"}


def test_a_point_is_the_base_with_the_drawn_settings(plan: MakePlan) -> None:
    found = plan()
    config = found.point({"mix": "a30-b70", "lr": 0.03, "network.scaler": False}, seed=2)
    assert (config.mix, config.lr, config.seed) == ("a30-b70", 0.03, 2)
    assert config.network.hidden == (8,)
    assert not config.network.scaler
    assert found.point({}) == found.base


def test_a_grid_has_each_point_once(plan: MakePlan) -> None:
    space = plan(
        sampler="grid",
        space={
            "levels": [1, 2],
            "shares": {"step": 0.5},
            "lr": {"low": 0.1, "high": 0.3, "step": 0.1},
        },
    ).space
    points = [space.suggest(Told(**answers)) for answers in space.grid()]
    # mixes a, a-b half and half, b; a100 of two levels is a again
    assert sorted((point["mix"], point["lr"]) for point in points) == [
        (mix, lr) for mix in ("a", "a-b", "b") for lr in (0.1, 0.2, 0.3)
    ]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "sweep.space={} is not valid: needs settings to vary"),
    ({"lrr": [1]}, "unknown setting 'lrr': did you mean 'lr'?"),
    ({"network": [1]}, "unknown setting 'network'"),
    ({"lr": 0.1}, "sweep.space.lr=0.1"),
    ({"lr": []}, "needs at least one choice"),
    ({"lr": [0.1, -1]}, "lr=-1.0 is not valid: must be above 0"),
    ({"lr": [0.1, 0.1]}, "each choice may be named once"),
    ({"lr": {"low": 0.2, "high": 0.1}}, "there is no valid point"),
    ({"lr": {"low": 0, "high": 0.1}}, "lr=0.0 is not valid: must be above 0"),
    ({"lr": {"low": 0.1}}, "{low: …, high: …}"),
    ({"lr": {"low": "x", "high": 1}}, "low must be a number"),
    ({"lr": {"low": 0.1, "high": 1, "lgo": True}}, "'lgo' is not known"),
    ({"lr": {"low": 0.1, "high": 1, "log": True, "step": 0.1}}, "goes without log"),
    ({"batch_size": {"low": 1.5, "high": 3}}, "must be whole numbers"),
    ({"assignment": {"low": 0, "high": 1}}, "must be a list of choices"),
    ({"assignment": ["dynamik"]}, "did you mean 'dynamic'?"),
    ({"execution.workers": [1, 2]}, "it changes nothing in the result"),
    ({"seed": [1, 2]}, "repeat runs with sweep.seeds"),
    ({"mix": ["a"], "levels": [1]}, "make the mix already"),
    ({"levels": [1], "rates": [[1.0]]}, "give levels or rates, not both"),
    ({"shrink": [0.5], "rates": [[1.0]]}, "it would change nothing"),
    ({"levels": {"low": 0, "high": 3}}, "numbers of levels from 1 to 26"),
    ({"levels": [2, 2]}, "each once"),
    ({"rates": [[1.5]]}, "rate 1.5 must be above 0 and up to 1"),
    ({"rates": 3}, "must be lists of rates"),
    ({"rates": [["x"]]}, "must be a list of rates"),
    ({"shares": {"step": 0.3}}, "step must divide 1"),
    ({"shares": {"drop": 0.6}}, "at most 0.5"),
    ({"shares": {"drop": "x"}}, "drop must be a number"),
    ({"shares": 3}, "true, or {drop: 0.05, step: 0.01}"),
]


@pytest.mark.parametrize(("space", "message"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_cannot_be_searched(space: dict[str, Any], message: str, plan: MakePlan) -> None:
    with pytest.raises(ConfigError) as error:
        plan(space=space).check()
    assert message in str(error.value)
    assert "\n" not in str(error.value)


WRONG_GROUP: list[tuple[dict[str, Any], str]] = [
    ({"objectives": ["scroe"]}, "did you mean 'score'?"),
    ({"objectives": []}, "name one or more"),
    ({"objectives": ["score", "score"]}, "each may be named once"),
    ({"sampler": "tpee"}, "did you mean 'tpe'?"),
    ({"samplr": "tpe"}, "did you mean 'sweep.sampler'?"),
    ({"trials": 0}, "sweep.trials=0"),
    ({"constraints": {"client_flopz": "30%"}}, "did you mean 'client_flops'?"),
    ({"constraints": {"client_flops": "much"}}, "a share of all-large such as 30%"),
    ({"constraints": {"client_flops": -1}}, "a number above 0"),
    ({"constraints": [1]}, "must be a group"),
    ({"space": [1]}, "must be a group"),
    ({"sampler": "grid"}, "a grid needs {step: …}"),
    ({"sampler": "grid", "space": {"lr": {"low": 0.1, "high": 1}}}, "a grid needs a step"),
    (
        {"sampler": "grid", "space": {"levels": [5], "shares": {"step": 0.01}}},
        "more than 20000 points",
    ),
    ({"stopping": "asha", "grace": 5}, "beyond the run: rounds=2"),
]


@pytest.mark.parametrize(("sweep", "message"), WRONG_GROUP, ids=lambda value: str(value)[:40])
def test_what_is_wrong_in_the_group(sweep: dict[str, Any], message: str, plan: MakePlan) -> None:
    with pytest.raises(ConfigError) as error:
        plan(**sweep).check()
    assert message in str(error.value)


def test_stopping_needs_tests_on_the_way(plan: MakePlan) -> None:
    with pytest.raises(ConfigError, match="no test on the way: evaluate_every=0"):
        plan({"evaluate_every": 0}, stopping="median").check()


def test_the_weakest_level_must_be_tested(plan: MakePlan) -> None:
    with pytest.raises(ConfigError, match=r"evaluation.levels=never"):
        plan({"evaluation": {"levels": "never"}}, objectives=["weakest"]).check()


def test_overrides_reach_the_experiment_the_sweep_and_its_tables(plan: MakePlan) -> None:
    changed = plan().override(
        ["rounds=7", "sweep.sampler=nsga2", "sweep.space.lr={low: 0.1, high: 0.2}",
         "sweep.constraints.client_flops=40%"]
    )  # fmt: skip
    assert (changed.base.rounds, changed.settings.sampler) == (7, "nsga2")
    assert [parameter.name for parameter in changed.space.parameters] == ["lr"]
    assert changed.space.mix is not None
    assert [(limit.name, limit.most) for limit in changed.limits] == [("client_flops", 0.4)]
    for wrong, message in (
        ("sweep.samplr=tpe", "did you mean 'sweep.sampler'?"),
        ("sweep.trials", "write it as name=value"),
        ("sweep.space.lr={", "cannot be read"),
        ("roundz=3", "did you mean 'rounds'?"),
    ):
        with pytest.raises(ConfigError) as error:
            plan().override([wrong])
        assert message in str(error.value)


@pytest.mark.parametrize("name", SWEEPS)
def test_presets_are_whole(name: str) -> None:
    plan = load_plan(name)
    plan.check()
    assert plan.base.data == name.removeprefix("levels-")
    assert {"shrink", "assignment", "lr"} <= {each.name for each in plan.space.parameters}
    assert plan.space.mix is not None
    assert len(plan.objectives) > 1
    assert plan.limits


def test_files_that_are_no_sweep() -> None:
    with pytest.raises(ConfigError, match="did you mean 'levels-digits'"):
        load_plan("levels-digit")
    with pytest.raises(ConfigError, match="has no 'sweep:' group"):
        make_plan(BASE, "my.yaml")
    assert make_plan({**BASE, "sweep": SWEEP}, "my.yaml").settings.trials == 20
