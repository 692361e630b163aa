"""The baseline of the speed suite is the same experiment: fed the same draws, the same model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.baseline.images import ImageJob, Pictures, changes
from benchmarks.baseline.slicing import Parameters
from benchmarks.baseline.text import TextJob
from benchmarks.baseline.transformer import Transformer
from benchmarks.jobs import baseline, renamed
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.augmentation import PADDING, Augmentation
from heterofl_ray.data.images import ImageClients
from heterofl_ray.data.info import DataInfo
from heterofl_ray.data.store import Draft, write_dataset
from heterofl_ray.data.words import token_draft
from heterofl_ray.execution.local import LocalBackend
from heterofl_ray.simulation import RoundRecord, Simulation

CPU = torch.device("cpu")


def small_images(root: Path, shape: tuple[int, ...], augment: bool) -> None:
    random = np.random.default_rng(0)

    def part(count: int) -> dict[str, np.ndarray[Any, Any]]:
        pixels = random.integers(0, 256, (count, *shape), dtype=np.uint8)
        return {"image": pixels, "label": np.arange(count) % 10}

    info = DataInfo(
        name="small",
        kind="images",
        train=160,
        test=40,
        shape=shape,
        classes=tuple("0123456789"),
        mean=(0.4,) * shape[0],
        std=(0.2,) * shape[0],
        augment=augment,
    )
    write_dataset(root, Draft(info, {"train": part(160), "test": part(40)}))


def small_text(root: Path) -> None:
    random = np.random.default_rng(0)
    train, test = (random.integers(0, 120, size).astype(np.int32) for size in (1600, 1280))
    write_dataset(root, token_draft("small", train, test, [str(n) for n in range(120)], origin=""))


def settings(**values: object) -> ExperimentConfig:
    common: dict[str, object] = {
        "data": "small",
        "mix": "d-e",
        "clients": 8,
        "fraction": 0.5,
        "rounds": 9,
        "local_epochs": 2,
        "evaluation": {"calibrate": "per-batch"},
        "execution": {"trainer": "plain"},
    }
    return ExperimentConfig.from_dict({**common, **values})


def simulated(bench: Workbench) -> tuple[RoundRecord, Parameters, dict[str, float], Any]:
    """One round of ours: its record, the model, its scores and its statistics."""
    backend = LocalBackend(bench)
    simulation = Simulation(bench, backend)
    record = simulation.train(1)
    scores = simulation.test(1)[bench.config.levels.largest.name]
    found = {name: tensor.clone() for name, tensor in backend.parameters().items()}
    backend.close()
    return record, found, scores.overall, scores.moments


def cohort(bench: Workbench, record: RoundRecord) -> Iterator[tuple[int, float]]:
    for report in record.reports:
        yield report.client, bench.config.levels[report.level].rate


class Dealt:
    """Augmentation of one picture after another as it was drawn beforehand."""

    def __init__(self, drawn: list[Augmentation]) -> None:
        self._choices = iter(
            [
                (int(top), int(left), bool(mirrored))
                for one in drawn
                for top, left, mirrored in zip(one.top, one.left, one.mirrored, strict=True)
            ]
        )

    def __call__(self, picture: Any) -> Any:
        from torchvision.transforms import functional

        top, left, mirrored = next(self._choices)
        padded = functional.pad(picture, [PADDING] * 4)
        crop = functional.crop(padded, top, left, picture.height, picture.width)
        return functional.hflip(crop) if mirrored else crop


def train_images(job: ImageJob, bench: Workbench, record: RoundRecord) -> None:
    """The baseline's round with the batches and augmentation of ours."""
    data = bench.data
    assert isinstance(data, ImageClients)
    info, pixels = data.dataset.info, data.dataset.train
    updates = []
    for client, rate in cohort(bench, record):
        random = bench.streams.torch("batches", 1, client)
        mine = torch.from_numpy(data.train[client].copy())
        orders, drawn = [], []
        for _ in range(bench.config.local_epochs):
            orders.append(mine[torch.randperm(len(mine), generator=random)].tolist())
            if info.augment:
                drawn.append(Augmentation.draw(len(mine), random))
        if info.augment:
            change = changes(info.mean, info.std, Dealt(drawn))
            job.train = Pictures(pixels.images, pixels.labels, change)
        updates.append(job.client(client, rate, orders=orders))
    job.combine(updates)


def deal_statistics(job: ImageJob, bench: Workbench) -> None:
    """The next pass of the baseline over its pictures is augmented as ours for statistics."""
    data = bench.data
    assert isinstance(data, ImageClients)
    info, pixels = data.dataset.info, data.dataset.train
    if info.augment:
        drawn = data.drawn_for_statistics(0, len(data.train.indices))
        change = changes(info.mean, info.std, Dealt([drawn]))
        job.train = Pictures(pixels.images, pixels.labels, change)


def assert_same(ours: Parameters, theirs: Parameters, rounding: float) -> None:
    for (name, mine), other in zip(ours.items(), theirs.values(), strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=rounding, msg=f"{name} differs")


@pytest.fixture
def in_float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(("model", "shape"), [("conv", (1, 28, 28)), ("preresnet18", (3, 32, 32))])
def test_images_give_the_same_model_statistics_and_scores(
    model: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    small_images(tmp_path, shape, augment=model == "preresnet18")
    bench = Workbench(settings(model=model, lr=0.01), tmp_path, CPU)
    job = baseline(bench)
    assert isinstance(job, ImageJob)
    start = {name: tensor.clone() for name, tensor in job.whole.items()}
    record, ours, scores, moments = simulated(bench)
    train_images(job, bench, record)
    assert_same(ours, job.whole, rounding=2e-5)
    moved = [not torch.equal(start[name], tensor) for name, tensor in job.whole.items()]
    assert all(moved)

    deal_statistics(job, bench)
    tested = job.calibrated(order=bench.data.train.indices.tolist())
    norms = [part for part in tested.modules() if isinstance(part, torch.nn.BatchNorm2d)]
    for (mean, variance), norm in zip(moments.averages().values(), norms, strict=True):
        torch.testing.assert_close(mean.float(), norm.running_mean, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(variance.float(), norm.running_var, rtol=1e-3, atol=1e-4)
    assert job.test_global(tested) == pytest.approx(scores["accuracy"], abs=2.5)  # one image
    assert job.test_local(tested) == pytest.approx(job.test_global(tested))


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("mix", ["d-e", "a-e"])
def test_text_gives_the_same_model_and_perplexity(mix: str, tmp_path: Path) -> None:
    small_text(tmp_path)
    config = settings(
        model="transformer",
        mix=mix,
        text={"rows": 8},
        local_epochs=1,
        server={"accumulate": "float64"},
    )
    bench = Workbench(config, tmp_path, CPU)
    job = baseline(bench)
    assert isinstance(job, TextJob)
    record, ours, scores, _ = simulated(bench)
    updates = []
    for client, rate in cohort(bench, record):
        random = bench.streams.torch("batches", 1, client)

        def draw(shape: torch.Size, random: torch.Generator = random) -> Tensor:
            return torch.rand(shape, generator=random)

        model = Transformer(job.vocabulary, rate, rate / job.global_rate)
        with bench.streams.layers("dropout", 1, client):
            updates.append(job.client(client, rate, draw=draw, model=model))
    job.combine(updates)
    assert_same(ours, job.whole, rounding=1e-10)

    hidden = torch.rand(len(job.test), generator=bench.streams.torch("test-mask"))
    whole = iter(hidden.view(10, -1).split(64, dim=1))
    perplexity = job.perplexity(draw=lambda shape: next(whole))
    assert perplexity == pytest.approx(scores["perplexity"], rel=1e-9)


def test_a_model_of_another_shape_is_noticed(tmp_path: Path) -> None:
    model = Transformer(10, 0.125, 1.0)
    right = {name: parameter.detach() for name, parameter in model.named_parameters()}
    assert list(renamed(right, model)) == list(right)
    with pytest.raises(ValueError, match=r"not the simulator's: tokens\.weight"):
        renamed({**right, "tokens.weight": torch.zeros(2, 2)}, model)
