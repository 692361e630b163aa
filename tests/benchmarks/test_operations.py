"""What a round must compute, against sums by hand."""

from __future__ import annotations

from pathlib import Path

import torch

from benchmarks.operations import of_test, of_training
from heterofl_ray.clients.jobs import ClientReport
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.simulation import RoundRecord

CPU = torch.device("cpu")


def record(*reports: ClientReport) -> RoundRecord:
    return RoundRecord(1, 0.1, 1.0, list(reports), None, {}, 1.0, None)


def test_a_perceptron_is_counted_layer_by_layer(data_root: Path) -> None:
    config = ExperimentConfig.from_dict(
        {
            "data": "digits",
            "model": "mlp",
            "mix": "a-b",
            "clients": 20,
            "local_epochs": 3,
            "network": {"hidden": [30]},
        }
    )
    bench = Workbench(config, data_root, CPU)
    wide, narrow = 2 * (64 * 30 + 30 * 10), 2 * (64 * 15 + 15 * 10)
    reports = [ClientReport(0, "a", 1.0, 70, 1, 1.0), ClientReport(1, "b", 1.0, 72, 1, 1.0)]
    assert of_training(bench, record(*reports)) == 3 * 3 * (70 * wide + 72 * narrow)
    assert of_test(bench) == bench.data.test_size * wide


def test_norms_that_need_statistics_see_all_training_data(
    tiny: ExperimentConfig, data_root: Path
) -> None:
    with_norms, without = (
        Workbench(tiny.override([f"network.norm={norm}"]), data_root, CPU)
        for norm in ("sbn", "none")
    )
    images = without.data.test_size
    assert (
        of_test(with_norms) / of_test(without)
        == (images + len(without.data.train.indices)) / images
    )


def test_text_is_counted_by_windows_and_clients_by_their_own_words(
    tiny_text: ExperimentConfig, data_root: Path
) -> None:
    bench = Workbench(tiny_text.override(["mix=a"]), data_root, CPU)
    every, own = bench.data.outputs, len(bench.data.labels(0))
    report = ClientReport(0, "a", 1.0, 640, 1, 1.0)
    per_word_of_all = of_test(bench) / bench.data.test_size
    per_word_of_own = of_training(bench, record(report)) / 640 / 3
    assert own < every
    # they differ by the last layer's products: 16 channels for each word that is left out
    assert round(per_word_of_all - per_word_of_own) == 2 * 16 * (every - own)
