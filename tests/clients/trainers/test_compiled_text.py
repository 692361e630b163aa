"""Compiled steps of text against the plain trainer: any number of words, the same dropout."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from heterofl_ray.clients.losses import Objective
from heterofl_ray.clients.trainers import packages
from heterofl_ray.clients.trainers.base import Batch, Trainer
from heterofl_ray.clients.trainers.compiled import CompiledTrainer
from heterofl_ray.clients.trainers.dropout import Draw, from_text, to_text
from heterofl_ray.clients.trainers.plain import PlainTrainer
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.models import registry
from heterofl_ray.models.layers import set_scaler_rate
from heterofl_ray.models.layout import label_axes, read_layout
from heterofl_ray.models.spec import ModelSpec
from heterofl_ray.runner import make_bench, run
from heterofl_ray.setting_groups import NetworkConfig, OptimizerConfig

CPU = torch.device("cpu")
SETTINGS = OptimizerConfig()
ROWS, WINDOW = 2, 8


def make_model(words: int, dropout: float = 0.2) -> nn.Module:
    torch.manual_seed(3)
    network = NetworkConfig(embedding=16, heads=2, feedforward=16, layers=1, dropout=dropout)
    model = registry.build(ModelSpec("transformer", (WINDOW,), words, network), 0.5).double()
    set_scaler_rate(model, 0.5)
    return model


def batches(words: int) -> list[Batch]:
    """Full windows and a shorter one at the end; the mask token is the one behind all words."""
    random = torch.Generator().manual_seed(5)
    return [
        (
            torch.randint(0, words + 1, (ROWS, length), generator=random),
            torch.randint(0, words, (ROWS, length), generator=random),
        )
        for length in (WINDOW, WINDOW, WINDOW, 5)
    ]


def make_trainer(settings: OptimizerConfig = SETTINGS) -> CompiledTrainer:
    varying = label_axes(read_layout(make_model(12)))
    return CompiledTrainer(settings, "", (ROWS, WINDOW), 1, tokens=True, varying=varying)


def after(trainer: Trainer, words: int, objective: Objective) -> tuple[float, list[Tensor]]:
    model, given = make_model(words), batches(words)
    torch.manual_seed(7)  # what dropout draws from
    loss = trainer.train(model, given, objective, 0.1)
    return loss, [parameter.detach() for parameter in model.parameters()]


def check_same(trainer: CompiledTrainer, words: int, objective: Objective) -> None:
    expected_loss, expected = after(PlainTrainer(trainer.settings), words, objective)
    loss, found = after(trainer, words, objective)
    assert loss == pytest.approx(expected_loss, rel=1e-9)
    for ours, plain in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("absent", [0, 5, 33_000])
@pytest.mark.parametrize(
    "settings",
    [SETTINGS, OptimizerConfig(momentum=0, clip_norm=0), OptimizerConfig(clip_norm=0.01)],
)
def test_one_graph_serves_clients_of_any_number_of_words(
    absent: int, settings: OptimizerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The very graph that the compiler gets, made for 12 words, run as it is."""
    trainer, objective = make_trainer(settings), Objective.sliced(absent, CPU)
    traced = packages.trace(*trainer._example(make_model(12), objective))
    monkeypatch.setattr(trainer, "ready", lambda *_: traced.run)
    for words in (12, 2, 31):
        check_same(trainer, words, objective)


@pytest.mark.parametrize("held", [None, [0, 3, 11]])
def test_words_that_are_not_sliced_are_compiled_as_well(
    held: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = CompiledTrainer(SETTINGS, "", (ROWS, WINDOW), 1, tokens=True)
    objective = Objective.masked(None if held is None else torch.tensor(held), 12, CPU)
    traced = packages.trace(*trainer._example(make_model(12), objective))
    monkeypatch.setattr(trainer, "ready", lambda *_: traced.run)
    check_same(trainer, 12, objective)


def test_what_is_compiled_does_not_depend_on_who_has_it_compiled() -> None:
    """A run in one process begins with a client's rows, workers with all words."""
    trainer, objective = make_trainer(), Objective.sliced(5, CPU)
    first, second = (trainer._example(make_model(words), objective)[1] for words in (12, 31))
    assert first.varying == second.varying
    assert len(first.varying) == 2 * 3  # parameters with rows of words, and their momenta
    for one, other in zip(first.tensors, second.tensors, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
    traced = [packages.trace(*trainer._example(make_model(words), objective)) for words in (12, 31)]
    assert traced[0].graph.code == traced[1].graph.code


def test_a_graph_draws_nothing_by_itself_and_each_mask_once() -> None:
    trainer, objective = make_trainer(), Objective.sliced(5, CPU)
    traced = packages.trace(*trainer._example(make_model(12), objective))
    stream, inner = (ROWS, WINDOW, 8), (ROWS, WINDOW, 8)
    assert [draw.shape for draw in traced.draws] == [stream, stream, inner, stream]
    assert {draw.probability for draw in traced.draws} == {0.8}
    targets = {str(node.target) for node in traced.graph.graph.nodes}
    assert not [name for name in targets if "bernoulli" in name or "dropout" in name]
    without = packages.trace(*trainer._example(make_model(12, dropout=0.0), objective))
    assert without.draws == []


def test_draws_survive_as_text() -> None:
    draws = (Draw((2, 3), 0.8), Draw((1,), 0.25, "float64"))
    assert from_text(to_text(draws)) == draws
    torch.manual_seed(1)
    drawn = draws[1]()
    torch.manual_seed(1)
    assert drawn.dtype == torch.float64
    assert torch.equal(drawn, torch.empty(1, dtype=torch.float64).bernoulli_(0.25))


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CompiledTrainer]:
    """A trainer whose steps are compiled for real, in a folder of this module's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HETEROFL_CACHE", str(tmp_path_factory.mktemp("steps")))
        trainer = make_trainer()
        trainer.prepare(make_model(12), Objective.sliced(5, CPU))
        yield trainer


@pytest.mark.slow
def test_native_code_equals_plain_for_any_number_of_words(
    native: CompiledTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = native._run
    monkeypatch.setattr(native, "path", lambda _: path)
    monkeypatch.setattr(packages, "make", lambda *_: pytest.fail("compiled again"))
    for words in (12, 2, 31):
        check_same(copy.copy(native), words, Objective.sliced(700, CPU))


def test_a_compiled_run_of_text_is_near_the_plain_one(
    tiny_text: ExperimentConfig, data_root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every client with its own words and rows; what is compiled is run as a graph."""
    plain = run(tiny_text.override([f"tracking.root={tmp_path}"]), data_dir=data_root)
    used = []

    def traced(self: CompiledTrainer, model: nn.Module, objective: Objective) -> packages.Run:
        found = packages.trace(*self._example(model, objective))
        used.append(self.batch)
        return found.run

    monkeypatch.setattr(CompiledTrainer, "ready", traced)
    compiled = run(
        tiny_text.override(["execution.trainer=compiled", f"tracking.root={tmp_path}"]),
        data_dir=data_root,
    )
    assert used == [(1, 64)] * 6  # three clients in each of two rounds
    assert compiled.summary["megabytes_up"] == plain.summary["megabytes_up"]
    for name, expected in plain.parameters.items():
        torch.testing.assert_close(compiled.parameters[name], expected, rtol=1e-4, atol=1e-5)


def test_clients_with_unequal_rows_are_not_compiled(
    tiny_text: ExperimentConfig, data_root: Path
) -> None:
    equal = make_bench(tiny_text, data_root)
    assert equal.data.rows_each == 1
    assert make_bench(tiny_text.override(["clients=50"]), data_root).data.rows_each == 2
    unequal = make_bench(tiny_text.override(["clients=30"]), data_root)
    assert unequal.data.rows_each is None
