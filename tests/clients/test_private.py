"""What a client keeps never is in what it sends."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from heterofl_ray.clients import jobs
from heterofl_ray.clients.jobs import CalibrateJob, EvaluateJob, TrainJob
from heterofl_ray.clients.private import ClientTestJob, PrivateTrainJob
from heterofl_ray.clients.update import LocalUpdate, client_update
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.parameter_server import ParameterServer
from heterofl_ray.submodels.selectors import Cut

CPU = torch.device("cpu")
HEAD = frozenset({"classifier.weight", "classifier.bias"})


def below_the_head(bench: Workbench) -> frozenset[str]:
    return frozenset(bench.layout(bench.config.levels.largest)) - HEAD


def size(tensors: object, names: frozenset[str]) -> int:
    return sum(tensors[name].numel() for name in names)  # type: ignore[index]


@pytest.mark.parametrize("keep_head", [False, True])
def test_private_tensors_are_not_among_what_is_sent(
    tiny: ExperimentConfig, data_root: Path, keep_head: bool
) -> None:
    bench = Workbench(tiny, data_root, CPU)
    level = tiny.levels.levels[1]
    rest = below_the_head(bench)
    private, shared = (HEAD, rest) if keep_head else (rest, HEAD)
    start = ParameterServer(bench).cut(Cut(level))
    job = PrivateTrainJob(1, Cut(level), (2, 5), 0.1, private)
    reports, update, *kept = job.run(bench, start, None, None)
    assert set(update.sums) == shared
    assert [set(state) for state in kept] == [private, private]
    # the first time a client gets all of the model; from then on it has its own layers
    assert [r.moved for r in reports] == [size(start, shared | private)] * 2
    assert [r.returned for r in reports] == [size(start, shared)] * 2
    reports, _, *kept = job.run(bench, start, *kept)
    assert [(r.moved, r.returned) for r in reports] == [(size(start, shared),) * 2] * 2


def test_training_is_the_plain_jobs_and_the_sum_is_its_shared_part(
    tiny: ExperimentConfig, data_root: Path
) -> None:
    bench = Workbench(tiny, data_root, CPU)
    cut, private = Cut(tiny.levels.largest), below_the_head(bench)
    start = ParameterServer(bench).cut(cut)
    _, plain = TrainJob(1, cut, (4,), 0.1).run(bench, start)
    _, update, state = PrivateTrainJob(1, cut, (4,), 0.1, private).run(bench, start, None)
    assert all(torch.equal(update.sums[name], plain.sums[name]) for name in HEAD)
    assert all(torch.equal(state[name], plain.sums[name]) for name in private)
    # the next round begins from both, wherever the parts are kept
    joined = {**start, **state}
    _, plain = TrainJob(2, cut, (4,), 0.1).run(bench, joined)
    _, update, again = PrivateTrainJob(2, cut, (4,), 0.1, private).run(bench, start, state)
    assert all(torch.equal(update.sums[name], plain.sums[name]) for name in HEAD)
    assert all(torch.equal(again[name], plain.sums[name]) for name in private)


def test_nothing_shared_is_nothing_moved(tiny: ExperimentConfig, data_root: Path) -> None:
    bench = Workbench(tiny, data_root, CPU)
    cut, everything = Cut(tiny.levels.largest), HEAD | below_the_head(bench)
    server = ParameterServer(bench)
    before = {name: tensor.clone() for name, tensor in server.parameters.items()}
    job = PrivateTrainJob(1, cut, (1, 2), 0.1, everything)
    reports, update, *_ = job.run(bench, server.cut(cut), None, None)
    assert update.sums == {}
    assert [(r.moved, r.returned) for r in reports] == [(0, 0), (0, 0)]
    server.accumulate(update)
    server.commit(1)
    assert all(torch.equal(server.parameters[name], t) for name, t in before.items())


def test_rows_of_labels_a_client_lacks_stay_as_they_were(
    tiny: ExperimentConfig, data_root: Path
) -> None:
    bench = Workbench(tiny.override(["partition=classes:2"]), data_root, CPU)
    cut = Cut(tiny.levels.largest)
    start = ParameterServer(bench).cut(cut)
    *_, state = PrivateTrainJob(1, cut, (3,), 0.1, HEAD).run(bench, start, None)
    own = set(bench.data.labels(3).tolist())
    changed = (state["classifier.weight"] != start["classifier.weight"]).any(1)
    assert {row for row, is_new in enumerate(changed.tolist()) if is_new} == own


def test_the_words_a_client_has_are_what_it_moves_and_keeps(
    tiny_text: ExperimentConfig, data_root: Path
) -> None:
    """Own words' rows are trained; a state has all rows, so that it can be laid over a slice."""
    bench = Workbench(tiny_text, data_root, CPU)
    cut = Cut(tiny_text.levels.levels[1])
    start = ParameterServer(bench).cut(cut)
    last = list(start)[-1].rpartition(".")[0]
    private = frozenset(name for name in start if not name.startswith(last))
    job = PrivateTrainJob(1, cut, (0,), 0.1, private)
    (first,), update, state = job.run(bench, start, None)
    assert {name: tensor.shape for name, tensor in state.items()} == {
        name: start[name].shape for name in private
    }
    (later,), _, _ = job.run(bench, start, state)
    assert later.moved == later.returned == sum(t.numel() for t in update.sums.values())
    assert first.moved == client_update(bench, cut.level, 0, 1, 0.1, start).moved


def test_a_rejected_client_keeps_what_it_had(
    tiny: ExperimentConfig, data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(bench: Workbench, level: object, client: int, *rest: object) -> LocalUpdate:
        update = client_update(bench, level, client, *rest)  # type: ignore[arg-type]
        if client == 3:  # in a layer that it does not even send
            update.parameters["blocks.0.bias"][0] = float("nan")
        return update

    monkeypatch.setattr(jobs, "client_update", broken)
    bench = Workbench(tiny, data_root, CPU)
    cut = Cut(tiny.levels.largest)
    job = PrivateTrainJob(1, cut, (2, 3), 0.1, below_the_head(bench))
    reports, update, *kept = job.run(bench, ParameterServer(bench).cut(cut), None, None)
    assert [state is None for state in kept] == [False, True]
    assert "blocks.0.bias" in str(reports[1].rejected)
    assert update.weight == 1


def test_a_clients_model_is_tested_on_everything_and_on_its_own_share(
    tiny: ExperimentConfig, data_root: Path
) -> None:
    bench = Workbench(tiny.override(["partition=classes:2"]), data_root, CPU)
    level = tiny.levels.largest
    start = ParameterServer(bench).cut(Cut(level))
    state = {name: start[name] + 0.1 for name in HEAD}
    found = ClientTestJob(level, 6).run(bench, start, state)
    mine = int((bench.data.test_owners(0, bench.data.test_size) == 6).sum())
    assert found["global"].examples == bench.data.test_size
    assert found["local"].examples == mine > 0
    # statistics of the client's own examples
    before = sum(bench.data.examples(client) for client in range(6))
    own = {**start, **state}
    moments = CalibrateJob(level, before, before + bench.data.examples(6)).run(bench, own)
    whole = EvaluateJob(level, 0, bench.data.test_size).run(bench, own, moments)
    assert found["global"] == whole["global"]
