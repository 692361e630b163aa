from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from heterofl_ray import presets
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.setting_groups import OptimizerConfig
from heterofl_ray.settings import describe, load_yaml, setting_names


def test_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ExperimentConfig().rounds = 3  # type: ignore[misc]


def test_overrides_take_flat_and_grouped_names_and_keep_texts_as_typed() -> None:
    config = ExperimentConfig().override(
        ["mix=1:0.3,0.4:0.7", "lr=1e-3", "optimizer.milestones=[10, 20]", "network.scaler=false"]
    )
    assert config.mix == "1:0.3,0.4:0.7"
    assert config.lr == 0.001
    assert config.optimizer.milestones == (10, 20)
    assert config.network.scaler is False


def test_one_number_is_a_list_of_one() -> None:
    assert ExperimentConfig().override(["optimizer.milestones=10"]).optimizer.milestones == (10,)


def test_overrides_are_checked_together_not_one_by_one() -> None:
    config = ExperimentConfig(rounds=10).override(["optimizer.milestones=[50]", "rounds=100"])
    assert config.optimizer.milestones == (50,)


def test_yaml_round_trip(tmp_path: Path) -> None:
    config = presets.load("pydocs-dynamic").override(["seed=7"])
    path = tmp_path / "config.yaml"
    path.write_text(config.to_yaml())
    assert ExperimentConfig.from_dict(load_yaml(path)) == config
    assert presets.load(str(path)) == config


def test_yaml_may_start_from_a_preset(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("preset: digits-dynamic\nmix: a-e\nnetwork:\n  scaler: false\n")
    config = presets.load(str(path))
    assert config == presets.digits_dynamic().override(["mix=a-e", "network.scaler=false"])


def test_hash_is_of_the_experiment_not_of_where_it_is_written() -> None:
    config = ExperimentConfig()
    assert config.hash() == ExperimentConfig().hash()
    assert config.hash() == config.override(["tracking.root=elsewhere"]).hash()
    assert config.hash() != config.override(["seed=1"]).hash()


def test_only_what_differs_from_defaults_names_an_experiment() -> None:
    """So that a setting which is added later renames none."""
    config = ExperimentConfig(lr=0.5, optimizer=OptimizerConfig(momentum=0.3))
    text = json.dumps({"lr": 0.5, "optimizer.momentum": 0.3})
    assert config.hash() == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_cohort_is_ceil_of_c_times_m_and_at_least_one() -> None:
    sizes = {
        (100, 0.1): 10,
        (100, 0.07): 7,  # 0.07 x 100 is 7.000000000000001 in floats
        (15, 0.1): 2,
        (3, 0.01): 1,
        (7, 1.0): 7,
    }
    for (clients, fraction), size in sizes.items():
        assert ExperimentConfig(clients=clients, fraction=fraction).cohort_size == size


def test_learning_rate_falls_after_each_milestone() -> None:
    config = ExperimentConfig(
        rounds=10, lr=1.0, optimizer=OptimizerConfig(milestones=(2, 5), gamma=0.5)
    )
    rates = [config.learning_rate(t) for t in range(1, 8)]
    assert rates == [1.0, 1.0, 0.5, 0.5, 0.5, 0.25, 0.25]


def test_a_preset_run_for_fewer_rounds_loses_the_milestones_it_does_not_come_to() -> None:
    preset = presets.load("wikitext2-dynamic")
    assert preset.optimizer.milestones == (25, 50)
    assert preset.override(["rounds=40"]).optimizer.milestones == (25,)
    assert preset.override(["rounds=20", "mix=a-e"]).optimizer.milestones == ()
    assert preset.merge({"rounds": 40}).optimizer.milestones == (25,)
    with pytest.raises(ConfigError, match="beyond the run"):
        preset.override(["rounds=40", "optimizer.milestones=[50]"])


REFUSED = [
    ({"rouds": 3}, "unknown setting 'rouds': did you mean 'rounds'?"),
    ({"optimizer": {"momentun": 1}}, "did you mean 'optimizer.momentum'?"),
    ({"optimizer": 3}, "optimizer=3"),
    ({"rounds": 0}, "rounds=0 is not valid: must be 1 or more"),
    ({"rounds": 2.5}, "rounds=2.5 is not valid: must be a whole number"),
    ({"rounds": "many"}, "rounds='many'"),
    ({"rounds": True}, "rounds=True"),
    ({"lr": "fast"}, "lr='fast' is not valid: must be a number"),
    ({"lr": float("nan")}, "lr=nan"),
    ({"lr": float("inf")}, "lr=inf"),
    ({"lr": -0.1}, "must be above 0"),
    ({"shrink": 0}, "shrink=0.0"),
    ({"shrink": 1.01}, "at most 1"),
    ({"fraction": 1.5}, "fraction=1.5"),
    ({"fraction": 0}, "fraction=0.0"),
    ({"clients": 0}, "clients=0"),
    ({"seed": -1}, "seed=-1"),
    ({"mix": "a0-e0"}, "share above 0"),
    ({"mix": "a-2-e3"}, "0 or more"),
    ({"mix": "2.0:1"}, "rate 2.0 must be above 0 and up to 1"),
    ({"mix": 3}, "mix=3 is not valid: must be a text"),
    ({"assignment": "dynamc"}, "did you mean 'dynamic'?"),
    ({"partition": "clases:2"}, "partition='clases:2'"),
    ({"partition": "classes"}, "such as 'classes:2'"),
    ({"partition": "classes:0"}, "above 0"),
    ({"partition": "dirichlet:-1"}, "above 0"),
    ({"partition": "iid:3"}, "takes nothing"),
    ({"rounds": 5, "optimizer": {"milestones": [5]}}, "beyond the run"),
    ({"optimizer": {"milestones": [9, 3]}}, "must increase"),
    ({"optimizer": {"milestones": "soon"}}, "must be a list"),
    ({"optimizer": {"milestones": [0]}}, "1 or more"),
    ({"optimizer": {"name": "sdg"}}, "did you mean 'sgd'?"),
    ({"network": {"scaler": "yes please"}}, "true or false"),
    ({"network": {"embedding": 30, "heads": 8}}, "must divide network.embedding=30"),
    ({"network": {"hidden": [0]}}, "network.hidden"),
    ({"network": {"norm": "bn"}}, "network.norm='bn'"),
    ({"capability": {"low": 0.9, "high": 0.1}}, "at most high"),
    ({"clients": 3, "capability": {"values": [1.0, 0.5]}}, "2 values given"),
    ({"execution": {"device": "gpu"}}, "auto, cpu, cuda or cuda:N"),
    ({"text": {"mask_rate": 1.5}}, "text.mask_rate=1.5"),
]


@pytest.mark.parametrize(("values", "says"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_is_refused(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ExperimentConfig.from_dict(values)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rounds", "write it as name=value"),
        ("=3", "unknown setting ''"),
        ("momentum=0.5", "did you mean 'optimizer.momentum'?"),
        ("optimizer.momentum.x=1", "unknown setting"),
        ("network=3", "network=3"),
        ("rounds=[", "cannot be read"),
        ("rounds=", "rounds=None"),
    ],
)
def test_assignments_that_are_refused(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ExperimentConfig().override([text])
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"rounds: [", "not valid YAML"),
        (b"- 1\n- 2\n", "one 'name: value' a line"),
        (b"3: 4\n", "one 'name: value' a line"),
        (b"\xff\xfe\x00", "not valid YAML"),
        (b"!!python/object/apply:os.getcwd []", "not valid YAML"),
        (b"preset: nonesuch\n", "preset='nonesuch'"),
        (b"preset: [1]\n", "preset=[1]"),
    ],
)
def test_yaml_files_that_are_refused(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        presets.load(str(path))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_misspelt_preset() -> None:
    with pytest.raises(ConfigError, match="No such file"):
        presets.load("nowhere.yaml")
    with pytest.raises(ConfigError, match="did you mean 'digits-dynamic'"):
        presets.load("digits-dynamc")


@given(
    st.dictionaries(
        st.sampled_from(setting_names(ExperimentConfig)) | st.text(max_size=8),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        max_size=3,
    )
)
def test_any_overrides_give_a_config_or_a_config_error(values: dict[str, Any]) -> None:
    try:
        config = ExperimentConfig().override(f"{name}={value}" for name, value in values.items())
    except ConfigError:
        return
    assert ExperimentConfig.from_dict(yaml.safe_load(config.to_yaml())) == config


def test_every_setting_is_described() -> None:
    described = describe(ExperimentConfig())
    assert list(described) == setting_names(ExperimentConfig)
    assert all(entry["about"] for entry in described.values())


@pytest.mark.parametrize("name", presets.PRESETS)
def test_presets_are_valid_and_documented(name: str) -> None:
    assert isinstance(presets.load(name), ExperimentConfig)
    assert presets.PRESETS[name].__doc__
