"""Sweeps on a cluster: real trials, placed by Tune, whose points are repeated byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from heterofl_ray import presets, run
from heterofl_ray.errors import ConfigError, RunFailed
from heterofl_ray.methods.registry import METHODS
from heterofl_ray.simulation import Simulation
from heterofl_ray.tuning.plan import SweepPlan, make_plan
from heterofl_ray.tuning.sweep import SweepResult, resume, start

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("methods"),
    pytest.mark.usefixtures("ray_cluster"),
]

BASE: dict[str, Any] = {
    "data": "digits",
    "model": "conv",
    "mix": "a-c",
    "clients": 10,
    "fraction": 0.4,
    "rounds": 2,
    "local_epochs": 1,
    "network": {"hidden": [8, 8]},
}


def make(base: dict[str, Any] | None = None, **sweep: Any) -> SweepPlan:
    space = {"levels": {"low": 1, "high": 3}, "shares": True, "shrink": {"low": 0.3, "high": 0.7}}
    values = {
        **BASE,
        **(base or {}),
        "sweep": {"trials": 6, "concurrent": 2, "space": space, **sweep},
    }
    return make_plan(values, "here")


def begin(plan: SweepPlan, data_root: Path) -> tuple[SweepResult, list[str]]:
    said: list[str] = []
    return start(plan, data_dir=data_root, say=said.append), said


def study_of(result: SweepResult) -> optuna.Study:
    storage = f"sqlite:///{result.folder / 'optuna.db'}"
    return optuna.load_study(study_name=result.folder.name, storage=storage)


def beats(one: dict[str, float], other: dict[str, float]) -> bool:
    """Score up, parameters down: at least as good in both, and better in one."""
    pairs = [
        (one["score"], other["score"]),
        (-one["client_parameters"], -other["client_parameters"]),
    ]
    return all(x >= y for x, y in pairs) and any(x > y for x, y in pairs)


def test_a_front_of_two_objectives_under_a_constraint(data_root: Path) -> None:
    plan = make(constraints={"client_flops": "60%"})
    result, said = begin(plan, data_root)
    records = result.records
    complete = [trial for trial in records["trials"] if trial["state"] == "complete"]
    assert len(complete) == 6
    assert [line.split("  ")[0] for line in said] == [f"{n}/6" for n in range(1, 7)]

    # constraints hold for every trial that was trained, and what was left out broke them
    price = {trial["number"]: trial["client"]["client_flops"] for trial in records["trials"]}
    study = study_of(result)
    most = 0.6 * study.trials[complete[0]["number"]].user_attrs["price"]["large"]["client_flops"]
    for trial in records["trials"]:
        trained = trial["state"] == "complete"
        assert trained == (price[trial["number"]] <= most) or "same settings" in trial["why"]
        assert bool(trial["runs"]) == trained
        assert (result.folder / "trials" / f"{trial['number']:03d}").exists() == trained

    # the front by its definition
    values = {trial["number"]: trial["values"] for trial in complete}
    front = [n for n in values if not any(beats(values[m], values[n]) for m in values)]
    assert sorted(records["front"]) == sorted(front)
    assert sorted(trial.number for trial in study.best_trials) == sorted(front)

    # each point's file gives the same bytes again
    for trial in complete:
        if trial["number"] in front:
            (job,) = result.jobs[trial["number"]]
            again = run(presets.load(job), data_dir=data_root)
            kept = json.loads((result.folder / trial["runs"][0] / "result.json").read_text())
            assert again.summary["global"]["accuracy"] == trial["values"]["score"]
            assert again.summary["model_sha256"] == kept["model_sha256"]
    assert set(result.jobs) == set(front)
    assert not (result.folder / "tune").exists()


def test_a_failed_trial_is_recorded_and_stops_nothing(
    data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The method is the user's own, which trials must be given, too."""

    class Broken(Simulation):
        def run_round(self, t: int, meanwhile: Any = None) -> Any:
            raise ZeroDivisionError("on purpose")

    monkeypatch.setitem(METHODS, "broken", Broken)
    space = {"method": ["heterofl", "broken"]}
    result, said = begin(make(space=space, sampler="grid", concurrent=1), data_root)
    states = {trial["settings"]["method"]: trial["state"] for trial in result.records["trials"]}
    assert states == {"heterofl": "complete", "broken": "failed"}
    failed = [trial for trial in study_of(result).trials if trial.state == TrialState.FAIL]
    assert [t.user_attrs["error"] for t in failed] == ["ZeroDivisionError: on purpose"]
    assert sum("failed: ZeroDivisionError" in line for line in said) == 1
    assert said[-1] == "every point of the grid is done"

    with pytest.raises(RunFailed, match="the first said: ZeroDivisionError: on purpose"):
        begin(make(space={"method": ["broken"]}, trials=1), data_root)


def test_seeds_are_repeated_on_a_pool_of_workers_of_each_trial(data_root: Path) -> None:
    plan = make(
        {"execution": {"backend": "ray", "workers": 1}, "seed": 5},
        trials=1, seeds=2, objectives=["score", "weakest", "simulated_seconds"],
    )  # fmt: skip
    result, _ = begin(plan, data_root)
    (best, *_) = [t for t in result.records["trials"] if t["number"] in result.records["front"]]
    assert len(best["runs"]) == len(best["by_seed"]) == 2
    assert best["values"]["score"] == pytest.approx(sum(best["by_seed"]) / 2)
    assert best["spread"]["score"] == pytest.approx(
        abs(best["by_seed"][0] - best["by_seed"][1]) / 2**0.5
    )
    for job, score in zip(result.jobs[best["number"]], best["by_seed"], strict=True):
        config = presets.load(job)
        assert config.execution.backend == "ray"
        again = run(config.override(["execution.backend=local"]), data_dir=data_root)
        assert again.summary["global"]["accuracy"] == score


def test_trials_that_fall_behind_are_ended_early(data_root: Path) -> None:
    """One learning rate learns, the others do nothing; those are ended after the first test."""
    rates = [0.1, 1e-7, 2e-7, 3e-7, 4e-7, 5e-7]
    plan = make(
        {"rounds": 6, "evaluate_every": 1, "local_epochs": 2},
        space={"lr": rates}, sampler="grid", stopping="asha", objectives=["score"],
        trials=6, concurrent=1, seed=5,
    )  # fmt: skip
    result, _ = begin(plan, data_root)
    by_rate = {trial["settings"]["lr"]: trial for trial in result.records["trials"]}
    assert by_rate[0.1]["state"] == "complete"
    stopped = [trial for trial in by_rate.values() if trial["state"] == "stopped"]
    assert stopped, "nothing was ended early"
    study = study_of(result)
    for trial in stopped:
        assert trial["why"].startswith("ended early, after round")
        assert study.trials[trial["number"]].state == TrialState.PRUNED
        assert trial["number"] not in result.records["front"]
    more = resume(
        result.folder, overrides=["sweep.trials=6"], data_dir=str(data_root), say=lambda _: None
    )
    assert more.records["trials"] == result.records["trials"]  # nothing was left to do


def test_what_cannot_be_is_said_before_anything_is_trained(data_root: Path) -> None:
    wrong = {
        "execution.workers=50: a trial needs 51 x \\(1 CPU\\)": make(
            {"execution": {"backend": "ray", "workers": 50}}
        ),
        "sweep.constraints: none of 200 points": make(constraints={"client_parameters": 1}),
        "sweep.space: none of 200 points": make(space={"clients": [90000, 100000]}),
        "sweep.storage": make(storage="sqlite:////nowhere/at/all.db"),
    }
    for message, plan in wrong.items():
        with pytest.raises(ConfigError, match=message):
            begin(plan, data_root)
    assert not list(Path("runs").glob("*/trials"))


def test_a_resumed_sweep_keeps_its_settings(data_root: Path) -> None:
    result, _ = begin(make(trials=1, space={"lr": [0.05, 0.1]}), data_root)
    for override, name in (
        ("rounds=3", "rounds"),
        ("sweep.sampler=random", "sweep.sampler"),
        ("sweep.space.lr=[0.1, 0.2]", "sweep.space"),
        ("sweep.constraints.client_flops=50%", "sweep.constraints"),
    ):
        with pytest.raises(ConfigError, match=f"^{name}: a sweep that goes on"):
            resume(result.folder, overrides=[override], say=lambda _: None)
    more = resume(result.folder, overrides=["sweep.trials=2"], say=lambda _: None)
    assert sorted(t["settings"]["lr"] for t in more.records["trials"] if t["runs"]) == [0.05, 0.1]
