"""Updates that are not finite or of a wrong shape are left out, counted and reported."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from heterofl_ray import run
from heterofl_ray.clients import jobs
from heterofl_ray.clients.jobs import TrainJob
from heterofl_ray.clients.update import LocalUpdate, client_update
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ClientError
from heterofl_ray.parameter_server import ParameterServer
from heterofl_ray.submodels.selectors import Cut

CPU = torch.device("cpu")


@pytest.fixture(params=["nan", "inf", "shape", "missing"])
def _client_3_is_broken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(bench, level, client, *rest) -> LocalUpdate:  # type: ignore[no-untyped-def]
        update = client_update(bench, level, client, *rest)
        if client != 3:
            return update
        changed = {name: tensor.clone() for name, tensor in update.parameters.items()}
        match request.param:
            case "nan":
                changed["classifier.bias"][0] = float("nan")
            case "inf":
                changed["classifier.bias"][0] = float("inf")
            case "shape":
                changed["classifier.bias"] = changed["classifier.bias"][:-1]
            case _:
                del changed["classifier.bias"]
        return LocalUpdate(changed, update.labels, update.loss, update.examples, update.moved)

    monkeypatch.setattr(jobs, "client_update", broken)


@pytest.mark.usefixtures("_client_3_is_broken")
@pytest.mark.parametrize("partition", ["iid", "classes:2"])
def test_the_round_goes_on_as_if_the_client_had_not_taken_part(
    tiny: ExperimentConfig, data_root: Path, partition: str
) -> None:
    bench = Workbench(tiny.override([f"partition={partition}"]), data_root, CPU)
    level = tiny.levels.largest
    without, with_broken = ParameterServer(bench), ParameterServer(bench)
    without.accumulate(TrainJob(1, Cut(level), (2, 5), 0.1).run(bench, without.cut(Cut(level)))[1])
    without.commit(1)
    reports, update = TrainJob(1, Cut(level), (2, 3, 5), 0.1).run(
        bench, with_broken.cut(Cut(level))
    )
    with_broken.accumulate(update)
    with_broken.commit(1)
    assert [report.rejected is not None for report in reports] == [False, True, False]
    assert "classifier.bias" in str(reports[1].rejected)
    for name, tensor in without.parameters.items():
        assert torch.equal(with_broken.parameters[name], tensor)


@pytest.mark.usefixtures("_client_3_is_broken")
def test_it_is_counted_in_the_history(tiny: ExperimentConfig) -> None:
    result = run(tiny.override(["clients=5", "fraction=1.0", "rounds=2"]))
    assert result.history["rejected"].to_pylist() == [1, 1]
    clients = [
        sum(result.history[f"clients_{level}"].to_pylist()[place] for level in ("a", "c"))
        for place in (0, 1)
    ]
    assert clients == [4, 4]


@pytest.mark.usefixtures("_client_3_is_broken")
def test_or_it_ends_the_run_where_asked(tiny: ExperimentConfig) -> None:
    config = tiny.override(["clients=5", "fraction=1.0", "server.bad_updates=fail"])
    with pytest.raises(ClientError, match=r"client 3 .* bad update: .*classifier\.bias"):
        run(config)


def test_a_round_in_which_everybody_is_rejected_keeps_the_model(
    tiny: ExperimentConfig, data_root: Path
) -> None:
    bench = Workbench(tiny, data_root, CPU)
    server, level = ParameterServer(bench), tiny.levels.largest
    before = {name: tensor.clone() for name, tensor in server.parameters.items()}
    poisoned = {name: tensor * float("nan") for name, tensor in server.cut(Cut(level)).items()}
    reports, update = TrainJob(1, Cut(level), (0, 1), 0.1).run(bench, poisoned)
    server.accumulate(update)
    server.commit(1)
    assert all(report.rejected for report in reports)
    assert all(torch.equal(server.parameters[name], tensor) for name, tensor in before.items())
