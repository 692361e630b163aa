"""What runs are called, and the command that repeats one."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from heterofl_ray import presets
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.reporting import naming
from heterofl_ray.reporting.runs import Run

KnownRun = Callable[..., Run]


def test_one_setting_that_differs_is_named_by_its_value(known_run: KnownRun) -> None:
    runs = [known_run(mix=mix) for mix in ("a", "a-b")]
    assert naming.differing(runs) == ["mix"]
    assert naming.labels(runs) == ["a", "a-b"]
    assert naming.label_title(runs) == "mix"


def test_numbers_are_named_and_speaking_values_are_not(known_run: KnownRun) -> None:
    runs = [known_run(mix="a", seed=0), known_run(mix="a-b", seed=1)]
    assert naming.labels(runs) == ["a, seed=0", "a-b, seed=1"]
    assert naming.label_title(runs) == ""


def test_of_many_settings_as_few_as_tell_the_runs_apart(known_run: KnownRun) -> None:
    runs = [
        known_run(mix="a", lr=0.1, clients=10, batch_size=1),
        known_run(mix="a", lr=0.2, clients=20, batch_size=2),
        known_run(mix="b", lr=0.3, clients=20, batch_size=2),
    ]
    assert naming.differing(runs) == ["mix", "clients", "batch_size", "lr"]
    assert naming.labels(runs) == ["0.1", "0.2", "0.3"]
    assert naming.label_title(runs) == "lr"


def test_equal_runs_are_numbered_and_where_it_ran_does_not_count(known_run: KnownRun) -> None:
    runs = [known_run(), known_run(execution={"backend": "ray"})]
    assert naming.labels(runs) == ["known (1)", "known (2)"]


def test_long_labels_are_shortened(known_run: KnownRun) -> None:
    rates = ",".join(f"0.{number}:0.1" for number in range(10, 60))
    label = naming.labels([known_run(), known_run(mix=rates)])[1]
    assert len(label) == naming.LONGEST
    assert label == rates[:30] + "…" + rates[-29:]


def _repeated(command: str) -> ExperimentConfig:
    """The config that the command line gives."""
    program, word, preset, *rest = shlex.split(command)
    assert (program, word) == ("heterofl-ray", "run")
    assert rest[::2] == ["--set"] * (len(rest) // 2)
    return presets.load(preset).override(rest[1::2])


def test_the_command_gives_the_same_experiment(known_run: KnownRun) -> None:
    for changes in (
        ["rounds=20", "mix=a3-e7"],
        ["rounds=90", "partition=classes:2", "optimizer.milestones=[10,20]"],
        ["seed=3", "loss.sliced_vocabulary=false", "lr=1e-05", "mix=1.0:0.3,0.4:0.7"],
    ):
        config = presets.mnist_dynamic().override(changes)
        run = Run(known_run().folder, config, {}, {}, None)
        assert _repeated(naming.reproduce(run)).hash() == config.hash()


def test_milestones_that_fewer_rounds_drop_are_not_typed(known_run: KnownRun) -> None:
    config = presets.mnist_dynamic().override(["rounds=20"])
    run = Run(known_run().folder, config, {}, {}, None)
    assert naming.reproduce(run) == "heterofl-ray run mnist-dynamic --set rounds=20"


def test_a_config_far_from_any_preset_is_repeated_from_its_file(known_run: KnownRun) -> None:
    config = ExperimentConfig.from_dict(
        {
            "data": "mine",
            "mix": "b-c",
            "shrink": 0.3,
            "clients": 7,
            "fraction": 0.5,
            "rounds": 9,
            "seed": 4,
            "local_epochs": 3,
            "batch_size": 2,
            "lr": 0.3,
            "evaluate_every": 2,
            "optimizer": {"momentum": 0.1, "weight_decay": 0.2, "clip_norm": 3},
        }
    )
    run = Run(known_run().folder, config, {}, {}, None)
    assert naming.reproduce(run) == "heterofl-ray run known/config.yaml"
