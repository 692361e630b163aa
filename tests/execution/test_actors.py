"""A worker as the plain class it is."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest
from torch import nn

from heterofl_ray.clients import compiled_moments
from heterofl_ray.clients.jobs import TrainJob
from heterofl_ray.clients.losses import Objective
from heterofl_ray.clients.trainers import choice
from heterofl_ray.clients.trainers.compiled import CompiledTrainer
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.execution import actors
from heterofl_ray.execution.actors import Setup, Worker
from heterofl_ray.execution.local import LocalBackend
from heterofl_ray.models import registry
from heterofl_ray.parameter_server import ParameterServer
from heterofl_ray.runner import make_bench
from heterofl_ray.submodels.selectors import Cut


def test_a_levels_model_stays_with_the_worker_from_job_to_job(
    tiny: ExperimentConfig, data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actors, "register_tensors", lambda: None)  # which wants a Ray
    bench = make_bench(tiny, data_root)
    server = ParameterServer(bench)
    names = tuple(server.parameters)
    slices = {level: server.cut(Cut(level)) for level in tiny.levels.levels}
    setup = Setup(tiny, data_root, bench.data_folders, dict(registry.MODELS), (names,))
    worker = Worker(setup)
    models = {level: worker._bench.model(level) for level in tiny.levels.levels}
    build, built = registry.build, []

    def building(spec: registry.ModelSpec, rate: float) -> nn.Module:
        built.append(rate)
        return build(spec, rate)

    monkeypatch.setattr(registry, "build", building)
    for t in (1, 2, 3):
        for level, model in models.items():
            reports, _update = worker.train(TrainJob(t, Cut(level), (t,), 0.1), slices[level])
            assert [report.level for report in reports] == [level.name]
            assert worker._bench.model(level) is model
        assert t == 1 or not built, "made again for another job"
        built.clear()  # a level's first job reads its layout off a model


@pytest.mark.parametrize("where", ["worker", "local"])
def test_whoever_trains_keeps_the_memory_that_steps_free(
    tiny: ExperimentConfig, data_root: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(actors, "register_tensors", lambda: None)
    keep = Mock()
    monkeypatch.setattr(actors.freed_memory, "keep_it", keep)
    bench = make_bench(tiny, data_root)
    if where == "local":
        LocalBackend(bench).close()
    else:
        Setup(tiny, data_root, bench.data_folders, dict(registry.MODELS), ()).bench(())
    keep.assert_called_once_with()


def test_workers_begin_with_different_things_to_compile_and_end_with_all(
    tiny: ExperimentConfig, data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actors, "register_tensors", lambda: None)
    made: list[str] = []

    class Noting(CompiledTrainer):
        def prepare(self, model: nn.Module, objective: Objective) -> None:
            made.append(f"step of {self.recipe.split(' at ')[-1]}")

    monkeypatch.setattr(choice, "CompiledTrainer", Noting)
    monkeypatch.setattr(
        compiled_moments, "compiled_moments", lambda _, level: made.append(f"moments {level.name}")
    )
    config = tiny.override(["execution.trainer=compiled"])
    folders = make_bench(config, data_root).data_folders
    orders = []
    for turn in (1, 2):
        Worker(Setup(config, data_root, folders, dict(registry.MODELS), ())).prepare(turn)
        orders.append(list(made))
        made.clear()
    first, second = orders
    assert (
        sorted(first)
        == sorted(second)
        == [
            "moments a",
            "step of 0.25 of 1.0",
            "step of 1.0 of 1.0",
        ]
    )
    assert first[0] != second[0]
