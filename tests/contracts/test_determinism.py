"""Same config, same bytes; what must not matter does not."""

from __future__ import annotations

import pytest
import torch

from heterofl_ray import run
from heterofl_ray.config import ExperimentConfig


def sha(config: ExperimentConfig, *overrides: str) -> str:
    digest: str = run(config.override(overrides)).summary["model_sha256"]
    return digest


@pytest.mark.parametrize("model", ["conv", "preresnet18", "transformer"])
def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(
    tiny: ExperimentConfig, tiny_text: ExperimentConfig, model: str
) -> None:
    config = tiny_text if model == "transformer" else tiny
    config = config.override([f"model={model}"])
    if model == "preresnet18":
        config = config.override(["network.hidden=[8,8,8,8]"])
    first = sha(config)
    torch.manual_seed(99)  # the process's own random state is nobody's business
    assert sha(config) == first
    assert sha(config, "seed=1") != first


def test_how_often_one_tests_does_not_change_the_model(tiny: ExperimentConfig) -> None:
    plain = sha(tiny, "evaluate_every=0", "evaluation.levels=never")
    assert sha(tiny, "evaluate_every=1", "evaluation.levels=always") == plain


def test_settings_of_the_experiment_do_change_it(tiny: ExperimentConfig) -> None:
    variants = [
        "mix=a-b", "shrink=0.7", "lr=0.02", "partition=classes:2", "assignment=fix",
        "network.scaler=false", "network.norm=ln", "batch_size=5", "local_epochs=2",
        "optimizer.momentum=0", "server.weighting=examples",
    ]  # fmt: skip
    # clients of 71 and 72 examples, so that weighing by examples is seen
    digests = {sha(tiny, variant) for variant in variants}
    assert len(digests | {sha(tiny)}) == len(variants) + 1
