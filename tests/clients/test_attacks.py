"""What hostile clients send, who they are, and what stands against them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from heterofl_ray import preflight, run
from heterofl_ray.clients.attacks import tampered
from heterofl_ray.clients.jobs import TrainJob
from heterofl_ray.clients.update import local_batches
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.parameter_server import ParameterServer
from heterofl_ray.submodels.selectors import Cut

CPU = torch.device("cpu")


def bench_of(config: ExperimentConfig, root: Path, *overrides: str) -> Workbench:
    return Workbench(config.override(overrides), root, CPU)


def test_a_share_of_the_clients_is_hostile_for_the_whole_run(
    tiny: ExperimentConfig, data_root: Path
) -> None:
    assert bench_of(tiny, data_root).hostile == frozenset()
    first = bench_of(tiny, data_root, "attack.kind=nan", "attack.share=0.2").hostile
    assert len(first) == 4
    assert first == bench_of(tiny, data_root, "attack.kind=scale").hostile
    assert first != bench_of(tiny, data_root, "attack.kind=scale", "seed=1").hostile


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("sign_flip", 1 - 10 * 0.5), ("scale", 1 + 10 * 0.5), ("label_flip", 1.5)],
)
def test_updates_by_hand(
    tiny: ExperimentConfig, data_root: Path, kind: str, expected: float
) -> None:
    bench = bench_of(tiny, data_root, f"attack.kind={kind}")
    start, trained = {"w": torch.tensor([1.0])}, {"w": torch.tensor([1.5])}
    assert tampered(bench, 0, 1, start, trained)["w"].tolist() == [expected]


def test_noise_is_keyed_by_round_client_and_parameter(
    tiny: ExperimentConfig, data_root: Path
) -> None:
    bench = bench_of(tiny, data_root, "attack.kind=noise", "attack.scale=3")
    start = {"v": torch.ones(4000), "w": torch.ones(4000)}

    def sent(client: int, round_number: int) -> dict[str, Tensor]:
        return dict(tampered(bench, client, round_number, start, start))

    once = sent(0, 1)
    assert torch.equal(once["w"], sent(0, 1)["w"])
    for other in (once["v"], sent(1, 1)["w"], sent(0, 2)["w"]):
        assert not torch.equal(once["w"], other)
    assert float((once["w"] - 1).std()) == pytest.approx(3, rel=0.05)


def test_hostile_clients_tamper_and_the_others_do_not(
    tiny: ExperimentConfig, data_root: Path
) -> None:
    bench = bench_of(
        tiny, data_root, "attack.kind=nan", "partition=classes:2", "execution.trainer=plain"
    )
    bad, good = min(bench.hostile), min(set(range(20)) - bench.hostile)
    level = tiny.levels.largest
    job = TrainJob(1, Cut(level), (bad, good), 0.1)
    reports, update = job.run(bench, ParameterServer(bench).cut(Cut(level)))
    assert [report.rejected is not None for report in reports] == [True, False]
    assert update.weight == 1


def test_label_flip_reverses_the_client_s_own_labels(
    tiny: ExperimentConfig, data_root: Path
) -> None:
    honest = bench_of(tiny, data_root, "partition=classes:3")
    bench = bench_of(tiny, data_root, "partition=classes:3", "attack.kind=label_flip")
    bad, good = min(bench.hostile), min(set(range(20)) - bench.hostile)
    for client in (bad, good):
        low, middle, high = (int(label) for label in bench.data.labels(client))
        seen = set()
        batches = zip(
            local_batches(honest, client, 1), local_batches(bench, client, 1), strict=True
        )
        for (inputs, targets), (same, flipped) in batches:
            assert torch.equal(inputs, same)
            seen |= set(zip(targets.tolist(), flipped.tolist(), strict=True))
        ends = {(low, high), (high, low)} if client == bad else {(low, low), (high, high)}
        assert seen == {(middle, middle), *ends}


def test_label_flip_is_for_images(tiny_text: ExperimentConfig) -> None:
    with pytest.raises(ConfigError, match=r"attack\.kind='label_flip' .* only for images"):
        preflight.check(tiny_text.override(["attack.kind=label_flip"]), [])


# ---- a fifth of the clients is hostile --------------------------------------------------------

POISONED = ExperimentConfig.from_dict(
    {
        "data": "digits",
        "model": "mlp",
        "mix": "a-b",
        "assignment": "fix",
        "clients": 20,
        "fraction": 1.0,
        "rounds": 4,
        "local_epochs": 2,
        "batch_size": 20,
        "evaluate_every": 0,
        "evaluation": {"levels": "never"},
        "network": {"hidden": [32]},
        "execution": {"trainer": "plain"},
    }
)


def accuracy(*overrides: str) -> float:
    found: float = run(POISONED.override(overrides)).summary["global"]["accuracy"]
    return found


def test_the_mean_breaks_where_median_trimmed_mean_and_norm_bound_hold() -> None:
    clean = accuracy()
    assert clean > 88
    flip, scaled = "attack.kind=sign_flip", ("attack.kind=scale", "attack.scale=1000")
    assert accuracy(flip) < 25  # chance is 10
    assert accuracy(flip, "server.robust=median") > clean - 5
    assert accuracy(flip, "server.robust=trimmed") > clean - 5
    assert accuracy(*scaled) < clean - 40
    assert accuracy(*scaled, "server.norm_bound=2") > clean - 5
