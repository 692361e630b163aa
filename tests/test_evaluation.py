"""Tests as jobs: how data is cut into them, and that cutting changes no score."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from heterofl_ray import evaluation
from heterofl_ray.clients.jobs import CalibrateJob, EvaluateJob
from heterofl_ray.clients.scoring import headed_score
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.evaluation import MOST_PARTS, parts
from heterofl_ray.models.layers import parameters_of
from heterofl_ray.runner import make_backend, make_bench
from heterofl_ray.simulation import Simulation

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("total", "unit", "least", "expected"),
    [
        (10, 1, 4, [(0, 4), (4, 8), (8, 10)]),
        (10, 3, 4, [(0, 6), (6, 10)]),  # whole units
        (9, 1, 4, [(0, 4), (4, 9)]),  # a single last one joins
        (1, 1, 4, [(0, 1)]),
    ],
)
def test_parts_by_hand(total: int, unit: int, least: int, expected: list[tuple[int, int]]) -> None:
    assert parts(total, unit, least) == expected


@pytest.mark.parametrize("total", [1_000, 50_000, 1_000_000, 10_000_001])
def test_there_are_never_too_many_parts(total: int) -> None:
    cut = parts(total, 100, 1000)
    assert len(cut) <= MOST_PARTS
    assert [start for start, _ in cut[1:]] == [stop for _, stop in cut[:-1]]
    assert (cut[0][0], cut[-1][1]) == (0, total)
    assert all(start % 100 == 0 for start, _ in cut)


@pytest.mark.parametrize("calibrate", ["pooled", "per-batch"])
def test_scores_do_not_depend_on_how_the_data_is_cut(
    calibrate: str, tiny: ExperimentConfig, data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny.override([f"evaluation.calibrate={calibrate}", "rounds=1"])

    def score() -> dict[str, float]:
        bench = make_bench(config, data_root)
        backend = make_backend(bench)
        simulation = Simulation(bench, backend)
        simulation.train(1)
        try:
            return simulation.test(1)["a"].overall
        finally:
            backend.close()

    whole = score()
    monkeypatch.setattr(evaluation, "LEAST_IMAGES", 100)
    assert score() == pytest.approx(whole, rel=1e-5)


def test_per_batch_statistics_are_torchs_cumulative_ones(
    tiny: ExperimentConfig, data_root: Path
) -> None:
    """Over all clients' examples in batches of batch_size, as the published experiments do it."""
    config = tiny.override(["evaluation.calibrate=per-batch", "batch_size=7"])
    bench = Workbench(config, data_root, CPU)
    level = config.levels.largest
    parameters = {n: t.clone() for n, t in parameters_of(bench.model(level)).items()}
    total = len(bench.data.train.indices)
    ours = CalibrateJob(level, 0, total).run(bench, parameters).averages()

    images = bench.data.dataset.train.images.float() / 255  # type: ignore[union-attr]
    info = bench.data.dataset.info
    batches = ((images - info.mean[0]) / info.std[0])[torch.tensor(bench.data.train.indices)]
    conv = bench.model(level).blocks[0]  # type: ignore[index]
    norm = torch.nn.BatchNorm2d(8, momentum=None)
    with torch.no_grad():
        for batch in batches.split(7):
            norm(conv(batch))
    assert norm.running_mean is not None
    assert norm.running_var is not None
    torch.testing.assert_close(ours["blocks.2"][0].float(), norm.running_mean)
    torch.testing.assert_close(ours["blocks.2"][1].float(), norm.running_var)


@torch.no_grad()
@pytest.mark.parametrize("words", [3, 512, 1500])
def test_a_vocabularys_loss_tile_by_tile_is_the_cross_entropy(words: int) -> None:
    torch.manual_seed(0)
    hidden, head = 3 * torch.randn(100, 5, 6), torch.nn.Linear(6, words)
    targets = torch.randint(0, words, (100, 5))
    score = headed_score(hidden, head, targets)
    expected = F.cross_entropy(head(hidden).flatten(0, 1), targets.flatten(), reduction="sum")
    assert score.loss == pytest.approx(expected.item(), rel=1e-6)
    assert score.examples == 500


@torch.no_grad()
@pytest.mark.parametrize("rows", [slice(0, 512), slice(600, 700), slice(1400, 1500)])
@pytest.mark.parametrize("size", [1, 100, 1e4])
def test_logits_of_any_size_have_a_loss(rows: slice, size: float) -> None:
    """Some words' are far from the others', before or behind the first tile of words."""
    torch.manual_seed(0)
    hidden, head = torch.randn(100, 6), torch.nn.Linear(6, 1500)
    head.weight[rows] *= size
    targets = torch.randint(0, 1500, (100,))
    score = headed_score(hidden, head, targets)
    expected = F.cross_entropy(head(hidden).double(), targets, reduction="sum")
    assert score.loss == pytest.approx(expected.item(), rel=1e-6)


@torch.no_grad()
def test_a_model_that_came_apart_has_no_loss() -> None:
    hidden, head = torch.randn(3, 6), torch.nn.Linear(6, 7)
    hidden[1, 2] = math.nan
    assert math.isnan(headed_score(hidden, head, torch.zeros(3, dtype=torch.long)).loss)


@torch.no_grad()
def test_text_is_scored_as_by_all_its_logits(tiny_text: ExperimentConfig, data_root: Path) -> None:
    bench = Workbench(tiny_text, data_root, CPU)
    level = tiny_text.levels.largest
    model = bench.model(level)
    parameters = {n: t.clone() for n, t in parameters_of(model).items()}
    score = EvaluateJob(level, 0, 640).run(bench, parameters, None)["global"]
    ((inputs, targets),) = bench.data.test_batches(0, 640, 640, CPU)
    expected = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum")
    assert score.loss == pytest.approx(expected.item(), rel=1e-6)
