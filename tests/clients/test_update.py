"""ClientUpdate: the sliced vocabulary against the plain path, label restriction, sums."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from heterofl_ray.aggregation.overlap import OverlapMean
from heterofl_ray.clients.jobs import TrainJob
from heterofl_ray.clients.losses import Objective
from heterofl_ray.clients.update import client_update, local_batches, within
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.models.layers import assign
from heterofl_ray.parameter_server import ParameterServer
from heterofl_ray.submodels.plan import SubmodelPlan
from heterofl_ray.submodels.selectors import Cut

CPU = torch.device("cpu")


def float64_server(config: ExperimentConfig, root: Path) -> tuple[Workbench, ParameterServer]:
    bench = Workbench(config, root, CPU)
    server = ParameterServer(bench)
    server.parameters = {name: tensor.double() for name, tensor in server.parameters.items()}
    server._mean = OverlapMean(server._layout, server.parameters, torch.float64)
    for level in config.levels.levels:
        bench.model(level).double()
    return bench, server


def one_round(config: ExperimentConfig, root: Path) -> tuple[list[float], dict[str, Tensor]]:
    """Losses of three clients and the global model they make, in float64."""
    bench, server = float64_server(config, root)
    large, small = config.levels.levels
    losses = []
    for level, clients in ((large, (0, 1)), (small, (2,))):
        reports, update = TrainJob(1, Cut(level), clients, lr=0.1).run(
            bench, server.cut(Cut(level))
        )
        losses += [report.loss for report in reports]
        server.accumulate(update)
    server.commit(1)
    return losses, server.parameters


def test_sliced_vocabulary_trains_the_same_global_model(
    tiny_text: ExperimentConfig, data_root: Path
) -> None:
    sliced_losses, sliced = one_round(tiny_text, data_root)
    plain_losses, plain = one_round(tiny_text.override(["loss.sliced_vocabulary=false"]), data_root)
    assert sliced_losses == pytest.approx(plain_losses, rel=1e-10)
    start = float64_server(tiny_text, data_root)[1].parameters
    assert any(not torch.equal(start[name], plain[name]) for name in plain)
    for name in plain:
        assert torch.allclose(sliced[name], plain[name], rtol=1e-10, atol=1e-10), name


def test_sliced_vocabulary_has_the_same_clipped_gradients(
    tiny_text: ExperimentConfig, data_root: Path
) -> None:
    bench, server = float64_server(tiny_text, data_root)
    level = tiny_text.levels.largest
    model, labels = bench.model(level), bench.data.labels(0)
    rows = SubmodelPlan.of(bench.layout(level), labels=labels)

    def gradients(parameters: dict[str, Tensor], sliced: bool) -> tuple[float, dict[str, Tensor]]:
        assign(model, parameters)
        batches = local_batches(bench, 0, 1)
        inputs, targets = next(within(labels, batches) if sliced else batches)
        with bench.streams.layers("dropout", 1, 0):
            logits = model(inputs)
        outputs, device = bench.data.outputs, bench.device
        objective = (
            Objective.sliced(outputs - len(labels), device)
            if sliced
            else Objective.masked(labels, outputs, device)
        )
        objective(logits, targets).backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        found = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
        return float(norm), found

    whole = server.cut(Cut(level))
    plain_norm, plain = gradients(whole, sliced=False)
    sliced_norm, sliced = gradients(rows.extract(whole), sliced=True)
    assert plain_norm > 0.1  # so that clipping acts
    assert sliced_norm == pytest.approx(plain_norm, rel=1e-10)
    for name, gradient in rows.extract(plain).items():
        assert torch.allclose(sliced[name], gradient, rtol=1e-10, atol=1e-12), name


def test_a_sliced_client_gets_only_its_own_rows(
    tiny_text: ExperimentConfig, data_root: Path
) -> None:
    bench = Workbench(tiny_text, data_root, CPU)
    level = tiny_text.levels.largest
    update = client_update(bench, level, 0, 1, 0.1, ParameterServer(bench).cut(Cut(level)))
    words = len(bench.data.labels(0))
    assert words < bench.data.outputs / 3
    assert update.parameters["tokens.weight"].shape[0] == words + 1
    assert update.parameters["decoder2.bias"].shape == (words,)
    assert update.moved == sum(t.numel() for t in update.parameters.values())


def test_rows_of_labels_nobody_holds_keep_their_value(
    tiny: ExperimentConfig, data_root: Path
) -> None:
    bench = Workbench(tiny.override(["partition=classes:2"]), data_root, CPU)
    server = ParameterServer(bench)
    before = {name: tensor.clone() for name, tensor in server.parameters.items()}
    level = tiny.levels.largest
    _, update = TrainJob(1, Cut(level), (4,), 0.1).run(bench, server.cut(Cut(level)))
    server.accumulate(update)
    server.commit(1)
    held = set(bench.data.labels(4).tolist())
    assert 1 <= len(held) <= 2
    for label in range(10):
        same = torch.equal(
            server.parameters["classifier.weight"][label], before["classifier.weight"][label]
        )
        assert same == (label not in held)


@pytest.mark.parametrize("weighting", ["clients", "examples"])
def test_clients_summed_together_equal_clients_sent_one_by_one(
    tiny: ExperimentConfig, data_root: Path, weighting: str
) -> None:
    config = tiny.override([f"server.weighting={weighting}", "partition=dirichlet:0.3"])
    bench = Workbench(config, data_root, CPU)
    level = config.levels.levels[1]
    together, apart = ParameterServer(bench), ParameterServer(bench)
    together.accumulate(
        TrainJob(1, Cut(level), (3, 5, 8), 0.1).run(bench, together.cut(Cut(level)))[1]
    )
    together.commit(1)
    for client in (3, 5, 8):
        apart.accumulate(
            TrainJob(1, Cut(level), (client,), 0.1).run(bench, apart.cut(Cut(level)))[1]
        )
    apart.commit(1)
    for name in apart.parameters:
        assert torch.allclose(together.parameters[name], apart.parameters[name], atol=1e-6)


def test_example_weighting_by_hand(tiny: ExperimentConfig, data_root: Path) -> None:
    config = tiny.override(["server.weighting=examples", "partition=dirichlet:0.3"])
    bench = Workbench(config, data_root, CPU)
    level, server = config.levels.largest, ParameterServer(bench)
    start = server.cut(Cut(level))
    updates = [client_update(bench, level, client, 1, 0.1, start) for client in (0, 1)]
    sizes = [bench.data.examples(client) for client in (0, 1)]
    assert sizes[0] != sizes[1]
    for client in (0, 1):
        server.accumulate(TrainJob(1, Cut(level), (client,), 0.1).run(bench, start)[1])
    server.commit(1)
    name = "blocks.0.weight"
    by_hand = sum(n * u.parameters[name] for n, u in zip(sizes, updates, strict=True)) / sum(sizes)
    assert torch.allclose(server.parameters[name], by_hand, atol=1e-6)
