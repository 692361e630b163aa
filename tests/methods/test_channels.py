"""Sub-models of other channels: what the server makes of them, element by element."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

from heterofl_ray import run
from heterofl_ray.clients.group_sum import GroupUpdate
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.models.layout import Channels, Labels
from heterofl_ray.parameter_server import ParameterServer
from heterofl_ray.runner import make_bench, settled
from heterofl_ray.submodels.plan import Leading, Picked, Selection, SubmodelPlan
from heterofl_ray.submodels.selectors import Cut, select

CPU = torch.device("cpu")


def held_places(selection: Selection, width: int) -> list[int]:
    match selection:
        case Leading(segments=segments, outer=outer, inner=inner):
            return [s * outer + i for s in range(segments) for i in range(inner)]
        case Picked(places=places):
            return [int(place) for place in places]
        case _:
            return list(range(width))


def test_random_sub_models_of_each_client_are_averaged_element_by_element(
    tiny_text: ExperimentConfig, data_root: Path
) -> None:
    """A Transformer with heads, three clients with channels and words of their own."""
    config = tiny_text.override(
        [
            "network.embedding=4",
            "network.feedforward=4",
            "server.accumulate=float64",
            "mix=a-b",
        ]
    )
    bench = Workbench(config, data_root, CPU)
    server = ParameterServer(bench)
    small = config.levels.levels[1]
    wide, narrow = bench.layout(config.levels.largest), bench.layout(small)
    words = bench.data.outputs
    start = {name: tensor.clone() for name, tensor in server.parameters.items()}
    totals = {name: torch.zeros_like(tensor, dtype=torch.float64) for name, tensor in start.items()}
    counts = {name: torch.zeros_like(total) for name, total in totals.items()}
    random = torch.Generator().manual_seed(1)
    for client in (3, 4, 8):
        cut = Cut(small, "random", 2, client)
        mine = server.cut(cut)
        channels = select(cut, wide, narrow, bench.streams)
        labels = torch.randperm(words, generator=random)[:3].sort().values
        sums = {}
        for name, axes in wide.items():
            entries = []
            for axis in axes:
                if isinstance(axis, Channels):
                    entries.append(held_places(channels[axis.group], axis.width))
                elif isinstance(axis, Labels):
                    entries.append([*labels.tolist(), *range(axis.size, axis.width)])
                else:
                    entries.append(list(range(axis.width)))
            values = torch.randn([len(some) for some in entries], generator=random)
            sums[name] = values
            for local in itertools.product(*(range(len(some)) for some in entries)):
                place = tuple(some[i] for some, i in zip(entries, local, strict=True))
                totals[name][place] += float(values[local])
                counts[name][place] += 1
            if not any(isinstance(axis, Labels) for axis in axes):
                expected = start[name][torch.meshgrid(*map(torch.tensor, entries), indexing="ij")]
                assert torch.equal(mine[name], expected)
        server.accumulate(GroupUpdate(cut, sums, 1.0, labels, torch.ones(3)))
    server.commit(1)
    for name, total in totals.items():
        held = counts[name] > 0
        expected = torch.where(held, (total / counts[name]).float(), start[name])
        assert torch.equal(server.parameters[name], expected)
        assert held.any()
    assert not all((count > 0).all() for count in counts.values())


def test_plans_of_a_round_are_forgotten_with_it(tiny: ExperimentConfig, data_root: Path) -> None:
    server = ParameterServer(Workbench(tiny, data_root, CPU))
    level = tiny.levels.levels[1]
    for t in range(1, 4):
        for cut in (Cut(level), Cut(level, "random", t, 1), Cut(level, "rolling", t)):
            server.accumulate(GroupUpdate(cut, server.cut(cut), 1.0, None, None))
        assert len(server._mean._windows) == 3
        server.commit(1)
        assert list(server._plans) == [Cut(level)]
        assert len(server._mean._windows) == 1


def test_each_choice_of_channels_is_another_run(tiny: ExperimentConfig) -> None:
    variants = ["heterofl", "fedrolex", "random"]
    digests = {
        run(tiny.override([f"method={name}", "evaluate_every=0"])).summary["model_sha256"]
        for name in variants
    }
    by_level = tiny.override(["method=random", "selection.drawn_for=level", "evaluate_every=0"])
    digests.add(run(by_level).summary["model_sha256"])
    assert len(digests) == 4


@pytest.mark.parametrize("method", ["fedrolex", "random"])
def test_with_one_level_they_are_fedavg(tiny: ExperimentConfig, method: str) -> None:
    one = tiny.override(["mix=a", "evaluate_every=0"])
    found = run(one.override([f"method={method}"])).summary["model_sha256"]
    assert found == run(one).summary["model_sha256"]


RESIDUAL = ("model=preresnet18", "network.hidden=[4,6,8,8]", "mix=a-c")


@pytest.mark.parametrize("selection", ["rolling", "random"])
def test_residual_streams_keep_the_same_channels_throughout(
    tiny: ExperimentConfig, selection: str, data_root: Path
) -> None:
    """Other channels are the leading ones of a model whose channels lie in another order.

    Reordered, it must still compute the same: then whatever adds to a stream, or reads it, has the
    stream's channels in one order.
    """
    config = tiny.override(RESIDUAL)
    bench = Workbench(config, data_root, CPU)
    server, (large, small) = ParameterServer(bench), config.levels.levels
    random = torch.Generator().manual_seed(0)
    for tensor in server.parameters.values():  # no two channels are alike
        tensor.add_(torch.rand(tensor.shape, generator=random) / 4)
    cut = Cut(small, selection, 4, 3 if selection == "random" else None)
    chosen = select(cut, bench.layout(large), bench.layout(small), bench.streams)
    widths = {
        axis.group: axis.width
        for axes in bench.layout(large).values()
        for axis in axes
        if isinstance(axis, Channels)
    }
    order = {}
    for group, width in widths.items():
        held = held_places(chosen[group], width)
        order[group] = Picked(torch.tensor([*held, *(set(range(width)) - set(held))]))
    reordered = SubmodelPlan.of(bench.layout(large), order).extract(server.parameters)
    last = "classifier.weight"
    assert not torch.equal(reordered[last], server.parameters[last])

    model = bench.model(large).train()
    images = torch.randn(5, 1, 8, 8, generator=random)
    answers = [
        torch.func.functional_call(model, parameters, (images,))
        for parameters in (server.parameters, reordered)
    ]
    assert torch.allclose(*answers, atol=1e-5)

    first = SubmodelPlan.of(
        bench.layout(large),
        select(Cut(small), bench.layout(large), bench.layout(small), bench.streams),
    ).extract(reordered)
    for name, tensor in server.cut(cut).items():
        assert torch.equal(tensor, first[name]), name


@pytest.mark.parametrize("method", ["fedrolex", "random", "fjord"])
def test_residual_models_train_with_other_channels(
    tiny: ExperimentConfig, method: str, data_root: Path
) -> None:
    """Every tensor of them learns."""
    config = tiny.override([*RESIDUAL, f"method={method}", "evaluate_every=0", "fraction=0.1"])
    result = run(config)
    start = ParameterServer(make_bench(settled(config), data_root)).parameters
    for name, tensor in result.parameters.items():
        assert torch.isfinite(tensor).all()
        assert not torch.equal(tensor, start[name]), name
    assert set(result.summary["levels"]) == {"a", "c"}
