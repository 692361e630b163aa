"""Updates that are too long are scaled down, client by client, and counted."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from heterofl_ray import run
from heterofl_ray.clients.group_sum import restricted, within_bound
from heterofl_ray.clients.jobs import TrainJob
from heterofl_ray.clients.update import client_update
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.parameter_server import ParameterServer
from heterofl_ray.submodels.plan import SubmodelPlan
from heterofl_ray.submodels.selectors import Cut

CPU = torch.device("cpu")


def test_by_hand() -> None:
    """A step of (3, 4) from (1, 1), in two tensors, is 5 long."""
    start = {"u": torch.tensor([1.0]), "v": torch.tensor([[1.0]])}
    sent = {"u": torch.tensor([4.0]), "v": torch.tensor([[5.0]])}
    near = within_bound(start, sent, 2.5)
    assert near is not None
    assert near["u"].tolist() == [2.5]
    assert near["v"].tolist() == [[3.0]]
    assert within_bound(start, sent, 5.0) is None
    far = within_bound(start, {name: t * 5e37 for name, t in sent.items()}, 1.0)
    assert far is not None  # float32 has no square of such numbers
    length = math.hypot(far["u"].item() - 1, far["v"].item() - 1)
    assert length == pytest.approx(1, abs=1e-6)


def length(update: dict[str, Tensor], start: dict[str, Tensor]) -> float:
    return math.sqrt(sum(float((update[n] - start[n]).double().square().sum()) for n in update))


@pytest.mark.parametrize("partition", ["iid", "classes:2"])
def test_a_group_s_sum_is_that_of_its_bounded_updates(
    tiny: ExperimentConfig, data_root: Path, partition: str
) -> None:
    """Of two clients one is beyond the bound. Rows of labels that it lacks do not count."""
    bench = Workbench(tiny.override([f"partition={partition}"]), data_root, CPU)
    level = tiny.levels.largest
    slices = ParameterServer(bench).cut(Cut(level))
    moved, starts, held = [], [], []
    for client in (2, 5):
        update = client_update(bench, level, client, 1, 0.1, slices)
        moved.append({name: tensor.clone() for name, tensor in update.parameters.items()})
        starts.append(SubmodelPlan.of(bench.layout(level), labels=update.labels).extract(slices))
        held.append(update.labels)
    lengths = [length(*pair) for pair in zip(moved, starts, strict=True)]
    bound = sum(lengths) / 2

    strict = Workbench(bench.config.override([f"server.norm_bound={bound}"]), data_root, CPU)
    job = TrainJob(1, Cut(level), (2, 5), 0.1)
    reports, update = job.run(strict, slices)
    assert [report.bounded for report in reports] == [size > bound for size in lengths]
    assert sum(report.bounded for report in reports) == 1
    assert all(report.rejected is None for report in reports)

    labels = job.labels(bench)
    for name, axes in restricted(bench.layout(level), labels).items():
        expected = {name: torch.zeros_like(update.sums[name])}
        for parameters, start, size, own in zip(moved, starts, lengths, held, strict=True):
            near = start[name] + min(1.0, bound / size) * (parameters[name] - start[name])
            places = None if labels is None else torch.searchsorted(labels, own)
            SubmodelPlan.of({name: axes}, labels=places).add(expected, {name: near})
        assert torch.allclose(update.sums[name], expected[name], atol=1e-6)


def test_a_bound_that_nobody_reaches_changes_no_byte(tiny: ExperimentConfig) -> None:
    free, bound = run(tiny), run(tiny.override(["server.norm_bound=1e6"]))
    assert bound.summary["model_sha256"] == free.summary["model_sha256"]
    assert bound.history["bounded"].to_pylist() == [0, 0]
    assert "bounded" not in free.history.column_names


def test_how_many_were_bounded_is_in_the_history(tiny: ExperimentConfig) -> None:
    found = run(tiny.override(["server.norm_bound=1e-6"]))
    assert found.history["bounded"].to_pylist() == [4, 4]  # the whole cohort
