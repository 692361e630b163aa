"""Which trainer a level gets, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from heterofl_ray import presets
from heterofl_ray.clients.trainers import choice, measuring, packages
from heterofl_ray.clients.trainers.choice import chosen, expected_steps
from heterofl_ray.clients.trainers.compiled import CompiledTrainer
from heterofl_ray.clients.trainers.plain import PlainTrainer
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ClientError, ConfigError
from heterofl_ray.progress import Silent
from heterofl_ray.runner import make_bench, run


@pytest.fixture
def digits() -> ExperimentConfig:
    return presets.load("digits-dynamic").override(
        ["mix=a-e", "rounds=2", "local_epochs=1", "network.hidden=[8,8]", "execution.device=cpu"]
    )


def choices(config: ExperimentConfig, data_root: Path) -> list[str]:
    bench = make_bench(config, data_root)
    return [chosen(bench, level) for level in config.levels.levels]


def refusal(config: ExperimentConfig, changes: list[str], data_root: Path) -> str:
    """What is said of a trainer that cannot be."""
    with pytest.raises(ConfigError, match="trainer") as caught:
        make_bench(config.override(changes), data_root)
    return str(caught.value)


def test_the_rule_compiles_where_there_are_steps_enough(
    digits: ExperimentConfig, data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench(digits, data_root)
    large = digits.levels.largest
    steps = expected_steps(bench, large)
    shares = dict(zip(digits.levels.levels, digits.levels.shares, strict=True))
    per_client = bench.data.dataset.info.train / digits.clients / digits.batch_size
    assert steps == pytest.approx(2 * digits.cohort_size * shares[large] * per_client)
    assert choices(digits, data_root) == ["channels_last", "channels_last"]

    monkeypatch.setitem(choice.WORTH_COMPILING, "images", steps)
    assert choices(digits, data_root) == ["compiled", "compiled"]
    monkeypatch.setitem(choice.WORTH_COMPILING, "images", steps * 1.001)
    assert choices(digits, data_root) == ["channels_last", "channels_last"]


@pytest.mark.parametrize(
    "change", ["optimizer.name=adam", "execution.precision=bfloat16"], ids=["adam", "bfloat16"]
)
def test_the_rule_does_not_compile_what_it_cannot(
    digits: ExperimentConfig, data_root: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setitem(choice.WORTH_COMPILING, "images", 0)
    assert choices(digits.override([change]), data_root) == ["channels_last"] * 2


def test_narrow_residual_models_are_not_laid_out_as_would_crash_the_library(
    digits: ExperimentConfig, data_root: Path
) -> None:
    narrow = digits.override(["model=preresnet18-paper", "network.hidden=[16,16,16,16]"])
    assert choices(narrow, data_root) == ["channels_last", "plain"]
    with pytest.raises(ConfigError, match=r"channels_last.*crash.*at level e"):
        choices(narrow.override(["execution.trainer=channels_last"]), data_root)
    by_level = narrow.override(["execution.trainer=a=channels_last,e=plain"])
    assert choices(by_level, data_root) == ["channels_last", "plain"]


def test_without_a_compiler_the_rule_warns_and_a_wish_is_refused(
    digits: ExperimentConfig,
    data_root: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    monkeypatch.setitem(choice.WORTH_COMPILING, "images", 0)
    monkeypatch.setattr(packages, "compiler", lambda: None)
    assert choices(digits, data_root) == ["channels_last"] * 2
    assert "no C++ compiler" in caplog.text
    with pytest.raises(ConfigError, match=r"execution\.trainer.*C\+\+ compiler"):
        packages.make(lambda: None, [], tmp_path / "x.so", 1)  # type: ignore[arg-type,return-value]


def test_levels_may_have_trainers_of_their_own(digits: ExperimentConfig, data_root: Path) -> None:
    config = digits.override(["execution.trainer=a=plain,e=vectorised"])
    assert choices(config, data_root) == ["plain", "vectorised"]
    one = digits.override(["execution.trainer=e=plain"])
    assert choices(one, data_root) == ["channels_last", "plain"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["execution.trainer=fast"], "auto, measure, plain"),
        (["execution.trainer=e=fast"], "auto, measure, plain"),
        (["execution.trainer=e=measure"], "auto, measure, plain"),
        (["execution.trainer=d=plain"], "level in execution.trainer"),
        (["execution.trainer=compiled", "optimizer.name=adam"], "optimizer.name=sgd"),
        (["execution.trainer=compiled", "execution.precision=bfloat16"], "float32"),
        (["execution.trainer=graphed"], "execution.device=cuda"),
        (["execution.trainer=vectorised", "optimizer.name=adam"], "optimizer.name=sgd"),
    ],
)
def test_what_cannot_be_is_refused(
    digits: ExperimentConfig, data_root: Path, changes: list[str], said: str
) -> None:
    assert said in refusal(digits, changes, data_root)


def test_the_rule_compiles_text_by_its_windows(
    tiny_text: ExperimentConfig, data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench(tiny_text, data_root)
    large = tiny_text.levels.largest
    length = bench.data.dataset.info.train // tiny_text.text.rows
    steps = expected_steps(bench, large)
    assert steps == 2 * tiny_text.cohort_size * 0.5 * math.ceil(length / 64)
    assert choices(tiny_text, data_root) == ["plain", "plain"]

    monkeypatch.setitem(choice.WORTH_COMPILING, "text", steps)
    assert choices(tiny_text, data_root) == ["compiled", "compiled"]
    unequal = tiny_text.override(["clients=30", "fraction=0.1"])
    assert choices(unequal, data_root) == ["plain", "plain"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["execution.trainer=vectorised"], "models of images"),
        (["execution.trainer=graphed"], "models of images"),
        (["execution.trainer=compiled", "clients=30"], "equally many rows of text"),
        (["execution.trainer=compiled", "optimizer.name=adam"], "optimizer.name=sgd"),
    ],
)
def test_what_text_cannot_have_is_refused(
    tiny_text: ExperimentConfig, data_root: Path, changes: list[str], said: str
) -> None:
    assert said in refusal(tiny_text, changes, data_root)


def test_measured_once_then_remembered_and_written_into_the_config(
    digits: ExperimentConfig, data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HETEROFL_CACHE", str(tmp_path / "cache"))
    seconds = {"plain": 3.0, "channels_last": 2.0, "compiled": 4.0, "vectorised": 1.0}
    timed: list[str] = []

    def time_one(bench: object, level: object, name: str) -> float:
        timed.append(name)
        return seconds[name]

    monkeypatch.setattr(measuring, "seconds_per_step", time_one)
    config = digits.override(["execution.trainer=measure", f"tracking.root={tmp_path / 'runs'}"])
    result = run(config, data_dir=data_root)
    assert result.config.execution.trainer == "a=vectorised,e=vectorised"
    assert timed == [*seconds, *seconds]  # graphed needs a GPU
    kept = [json.loads(file.read_text()) for file in (tmp_path / "cache/steps").glob("*.json")]
    assert [entry["fastest"] for entry in kept] == ["vectorised"] * 2

    again = run(config, data_dir=data_root)
    assert len(timed) == 2 * len(seconds)
    assert again.summary["model_sha256"] == result.summary["model_sha256"]


def test_candidates_are_really_timed(digits: ExperimentConfig, data_root: Path) -> None:
    bench = make_bench(digits, data_root)
    level = digits.levels.largest
    before = {name: value.clone() for name, value in bench.model(level).state_dict().items()}
    assert 0 < measuring.seconds_per_step(bench, level, "plain") < 10
    for name, value in bench.model(level).state_dict().items():
        assert (value == before[name]).all()


def test_text_is_timed_with_a_clients_own_words(
    tiny_text: ExperimentConfig, data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench(tiny_text, data_root)
    level, rows = tiny_text.levels.largest, set()
    train = PlainTrainer.train

    def noted(self: PlainTrainer, model: nn.Module, *given: Any) -> float:
        rows.add(model.get_parameter("tokens.weight").shape[0])
        return train(self, model, *given)

    monkeypatch.setattr(PlainTrainer, "train", noted)
    assert measuring.seconds_per_step(bench, level, "plain") > 0
    assert rows == {len(bench.data.labels(0)) + 1}  # and the mask token's
    assert len(bench.model(level).get_parameter("tokens.weight")) == bench.data.outputs + 1


def test_a_vectorised_run_equals_one_client_after_another(
    digits: ExperimentConfig, data_root: Path, tmp_path: Path
) -> None:
    """Groups of four, some clients of unequal size, label-restricted rows."""
    base = digits.override(
        ["partition=dirichlet:0.5", "execution.clients_per_job=4", f"tracking.root={tmp_path}"]
    )
    plain, vectorised = (
        run(base.override([f"execution.trainer={name}"]), data_dir=data_root)
        for name in ("plain", "vectorised")
    )
    assert vectorised.summary["megabytes_up"] == plain.summary["megabytes_up"]
    for name, expected in plain.parameters.items():
        found = vectorised.parameters[name]
        assert (found - expected).abs().max() < 5e-4 * max(1.0, float(expected.abs().max())), name


def test_a_wait_for_the_compiler_is_said_before_it(
    digits: ExperimentConfig, data_root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HETEROFL_CACHE", str(tmp_path / "cache"))
    config = digits.override(["execution.trainer=a=compiled,e=plain", "rounds=1"])
    bench = make_bench(config, data_root)
    assert choice.not_yet_compiled(bench) == ["a"]

    shown, said, before = Silent(), list[str](), list[str]()
    monkeypatch.setattr(shown, "say", said.append)

    def begin(*arguments: object) -> None:
        before.extend(said)
        raise RuntimeError("begun")

    monkeypatch.setattr(packages, "make", begin)
    with pytest.raises(ClientError, match="begun"):
        run(config, data_dir=data_root, progress=shown)
    assert before == [
        "training steps at a are compiled first: a minute or two for each level, once on a machine"
    ]

    trainer = bench.trainer(config.levels.largest)
    assert isinstance(trainer, CompiledTrainer)
    trainer.path(bench.example_objective()).touch()
    assert choice.not_yet_compiled(bench) == []
    said.clear()
    run(config.override(["execution.trainer=plain"]), data_dir=data_root, progress=shown)
    assert said == []
