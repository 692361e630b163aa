"""The presets hold the paper's settings."""

from __future__ import annotations

from typing import Any

import pytest

from heterofl_ray import preflight, presets

PAPER: dict[str, dict[str, Any]] = {
    "mnist-dynamic": {
        **{"model": "conv", "partition": "iid", "rounds": 200, "lr": 0.01},
        **{"milestones": (100,), "local_epochs": 5, "assignment": "dynamic"},
    },
    "mnist-noniid": {
        **{"model": "conv", "partition": "classes:2", "rounds": 400, "lr": 0.01},
        **{"milestones": (200,), "local_epochs": 5, "assignment": "dynamic"},
    },
    "cifar10-dynamic": {
        **{"model": "preresnet18-paper", "partition": "iid", "rounds": 400, "lr": 0.1},
        **{"milestones": (150, 250), "local_epochs": 5, "assignment": "dynamic"},
    },
    "cifar10-noniid": {
        **{"model": "preresnet18-paper", "partition": "classes:2", "rounds": 800, "lr": 0.1},
        **{"milestones": (300, 500), "local_epochs": 5, "assignment": "dynamic"},
    },
    "wikitext2-dynamic": {
        **{"model": "transformer", "partition": "iid", "rounds": 100, "lr": 0.1},
        **{"milestones": (25, 50), "local_epochs": 1, "assignment": "dynamic"},
    },
    "wikitext2-fix": {
        **{"model": "transformer", "partition": "iid", "rounds": 100, "lr": 0.1},
        **{"milestones": (25, 50), "local_epochs": 1, "assignment": "fix"},
    },
}


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_settings(name: str) -> None:
    config = presets.load(name)
    held = {**config.to_dict(), "milestones": config.optimizer.milestones}
    assert {key: held[key] for key in PAPER[name]} == PAPER[name]
    assert (config.clients, config.cohort_size, config.batch_size) == (100, 10, 10)
    assert (config.optimizer.name, config.optimizer.momentum) == ("sgd", 0.9)
    assert (config.optimizer.weight_decay, config.optimizer.clip_norm) == (5e-4, 1.0)
    assert config.optimizer.gamma == 0.1
    assert config.mix == "a-e"
    assert config.data == name.partition("-")[0]


@pytest.mark.parametrize(
    ("name", "data", "public", "first", "last"),
    [
        ("fedmd-mnist", "femnist", "mnist", "party:128-256:.2", "party:128-128-192:.3"),
        ("fedmd-cifar10", "cifar100", "cifar10", "party:128-256:.2", "party:64-64-64-64:.2"),
    ],
)
def test_fedmds_settings(name: str, data: str, public: str, first: str, last: str) -> None:
    config = presets.load(name)
    own = config.fedmd
    assert (config.method, config.data, own.public, config.rounds) == ("fedmd", data, public, 20)
    assert len(set(own.participants)) == 10
    assert (own.participants[0], own.participants[-1]) == (first, last)
    assert (own.public_size, own.private_per_class, own.lr) == (5000, 3, 0.001)
    assert (own.pretrain_epochs, own.pretrain_batch) == (20, 128)
    assert (own.digest, own.digest_epochs, own.digest_batch) == ("mae", 1, 256)
    assert (own.revisit_epochs, own.revisit_batch, own.weights) == (4, 5, ())
    assert len(own.classes) == 6


@pytest.mark.parametrize("name", presets.PRESETS)
def test_every_preset_passes_preflight(name: str) -> None:
    preflight.check(presets.load(name), [])
