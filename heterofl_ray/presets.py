"""Named experiments: functions that return a full config, the paper's where the paper has one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError, suggestion
from heterofl_ray.method_settings import FedMDConfig, InclusiveFLConfig, ServerConfig
from heterofl_ray.setting_groups import NetworkConfig, OptimizerConfig
from heterofl_ray.settings import load_run_yaml, settings_of


def digits_dynamic() -> ExperimentConfig:
    """The paper's CNN at half width on embedded 8x8 digits, all five levels: no download."""
    return ExperimentConfig(
        data="digits",
        model="conv",
        mix="a-b-c-d-e",
        rounds=30,
        local_epochs=5,
        batch_size=10,
        lr=0.05,
        evaluate_every=5,
        network=NetworkConfig(hidden=(32, 64, 128, 256)),
    )


def methods_digits() -> ExperimentConfig:
    """Digits for few rounds, so that many methods are soon compared. No download."""
    return dataclasses.replace(digits_dynamic(), rounds=15)


def pydocs_dynamic() -> ExperimentConfig:
    """A small Transformer on Python's help topics, all five levels: no download."""
    return ExperimentConfig(
        data="pydocs",
        model="transformer",
        mix="a-b-c-d-e",
        rounds=20,
        local_epochs=1,
        lr=0.1,
        evaluate_every=5,
        network=NetworkConfig(embedding=128, feedforward=256, layers=2),
    )


def sentences_dynamic() -> ExperimentConfig:
    """A small text encoder on made-up opinions, all five levels: no download."""
    return ExperimentConfig(
        data="sentences",
        model="encoder",
        mix="a-b-c-d-e",
        rounds=20,
        local_epochs=5,
        lr=0.002,
        evaluate_every=5,
        network=NetworkConfig(embedding=64, heads=4, feedforward=128, dropout=0.1),
        optimizer=OptimizerConfig(name="adam", weight_decay=0.0),
    )


def entities_dynamic() -> ExperimentConfig:
    """A small text encoder on made-up sentences with tagged names, all five levels: no download."""
    return dataclasses.replace(sentences_dynamic(), data="entities")


def inclusivefl_sentences() -> ExperimentConfig:
    """InclusiveFL on made-up opinions: encoders of 6, 4 and 2 layers. No download."""
    return dataclasses.replace(
        sentences_dynamic(),
        method="inclusivefl",
        mix="a-b-c",
        network=NetworkConfig(embedding=64, heads=4, feedforward=128, layers=6, dropout=0.1),
        server=ServerConfig(optimizer="adam", lr=0.003),
        inclusivefl=InclusiveFLConfig(beta=0.2),
    )


def inclusivefl_entities() -> ExperimentConfig:
    """InclusiveFL on made-up sentences with tagged names. No download."""
    return dataclasses.replace(
        inclusivefl_sentences(), data="entities", inclusivefl=InclusiveFLConfig(beta=0.5)
    )


def inclusivefl_cola() -> ExperimentConfig:
    """InclusiveFL's setting for GLUE: BERT-sized encoders of 12, 8 and 4 layers, 1000 clients.

    ``data`` may be any of GLUE's tasks, imported with --tokenizer; network.pretrained names the
    folder of a pre-trained model.
    """
    return ExperimentConfig(
        data="cola",
        model="encoder",
        method="inclusivefl",
        mix="a-b-c",
        clients=1000,
        fraction=0.02,
        rounds=1000,
        local_epochs=1,
        batch_size=16,
        lr=2e-5,
        evaluate_every=50,
        network=NetworkConfig(embedding=768, heads=12, feedforward=3072, layers=12, dropout=0.1),
        server=ServerConfig(optimizer="adam", lr=1e-3),
        inclusivefl=InclusiveFLConfig(beta=0.2),
    )


def fedmd_digits() -> ExperimentConfig:
    """FedMD on digits: five small CNNs have three of each, all others are public. No download.

    Public labels are not used: of the same classes, they would leave nothing to learn in private.
    """
    return ExperimentConfig(
        data="digits",
        model="party",
        method="fedmd",
        rounds=10,
        evaluate_every=2,
        fedmd=FedMDConfig(public="digits", pretrain_epochs=0, private_epochs=50, digest_batch=64),
    )


def fedmd_mnist() -> ExperimentConfig:
    """FedMD's first setting: MNIST is public, ten CNNs have three of each letter from a to f.

    One writer for each participant is ``partition=natural fedmd.private_per_class=20``.
    """
    return ExperimentConfig(
        data="femnist",
        model="party",
        method="fedmd",
        rounds=20,
        fedmd=FedMDConfig(
            public="mnist",
            classes=tuple(range(36, 42)),
            participants=(
                "party:128-256:.2",
                "party:128-384:.2",
                "party:128-512:.2",
                "party:256-256:.3",
                "party:256-512:.4",
                "party:64-128-256:.2",
                "party:64-128-192:.2",
                "party:128-192-256:.2",
                "party:128-128-128:.3",
                "party:128-128-192:.3",
            ),
        ),
    )


def fedmd_cifar10() -> ExperimentConfig:
    """FedMD's second setting: CIFAR-10 is public, ten CNNs have three of six CIFAR-100 classes."""
    return ExperimentConfig(
        data="cifar100",
        model="party",
        method="fedmd",
        rounds=20,
        fedmd=FedMDConfig(
            public="cifar10",
            classes=(0, 2, 20, 63, 71, 82),
            participants=(
                "party:128-256:.2",
                "party:128-128-192:.2",
                "party:64-64-64:.2",
                "party:128-64-64:.3",
                "party:64-64-128:.4",
                "party:64-128-256:.2",
                "party:64-128-192:.2",
                "party:128-192-256:.2",
                "party:128-128-128:.3",
                "party:64-64-64-64:.2",
            ),
        ),
    )


def mnist_dynamic() -> ExperimentConfig:
    """The paper's CNN on MNIST, dealt alike to all."""
    return ExperimentConfig(
        data="mnist",
        model="conv",
        rounds=200,
        lr=0.01,
        evaluate_every=10,
        optimizer=OptimizerConfig(milestones=(100,)),
    )


def mnist_noniid() -> ExperimentConfig:
    """MNIST with two classes for each client: twice the rounds."""
    return dataclasses.replace(
        mnist_dynamic(),
        partition="classes:2",
        rounds=400,
        optimizer=OptimizerConfig(milestones=(200,)),
    )


def cifar10_dynamic() -> ExperimentConfig:
    """The paper's pre-activation ResNet18 on CIFAR-10, dealt alike to all."""
    return ExperimentConfig(
        data="cifar10",
        model="preresnet18-paper",
        rounds=400,
        lr=0.1,
        evaluate_every=10,
        optimizer=OptimizerConfig(milestones=(150, 250)),
    )


def cifar10_noniid() -> ExperimentConfig:
    """CIFAR-10 with two classes for each client: twice the rounds."""
    return dataclasses.replace(
        cifar10_dynamic(),
        partition="classes:2",
        rounds=800,
        optimizer=OptimizerConfig(milestones=(300, 500)),
    )


def wikitext2_dynamic() -> ExperimentConfig:
    """The paper's Transformer on WikiText-2, hidden words to be told from their neighbours."""
    return ExperimentConfig(
        data="wikitext2",
        model="transformer",
        rounds=100,
        local_epochs=1,
        lr=0.1,
        evaluate_every=10,
        optimizer=OptimizerConfig(milestones=(25, 50)),
    )


def wikitext2_fix() -> ExperimentConfig:
    """WikiText-2 with a level for each client that never changes."""
    return dataclasses.replace(wikitext2_dynamic(), assignment="fix")


PRESETS: dict[str, Callable[[], ExperimentConfig]] = {
    "digits-dynamic": digits_dynamic,
    "methods-digits": methods_digits,
    "pydocs-dynamic": pydocs_dynamic,
    "sentences-dynamic": sentences_dynamic,
    "entities-dynamic": entities_dynamic,
    "inclusivefl-sentences": inclusivefl_sentences,
    "inclusivefl-entities": inclusivefl_entities,
    "inclusivefl-cola": inclusivefl_cola,
    "fedmd-digits": fedmd_digits,
    "fedmd-mnist": fedmd_mnist,
    "fedmd-cifar10": fedmd_cifar10,
    "mnist-dynamic": mnist_dynamic,
    "mnist-noniid": mnist_noniid,
    "cifar10-dynamic": cifar10_dynamic,
    "cifar10-noniid": cifar10_noniid,
    "wikitext2-dynamic": wikitext2_dynamic,
    "wikitext2-fix": wikitext2_fix,
}


def load(name_or_path: str) -> ExperimentConfig:
    """A preset's config, or a YAML file's; the file may start from ``preset: NAME``."""
    if name_or_path in PRESETS:
        return PRESETS[name_or_path]()
    path = Path(name_or_path)
    if path.suffix not in (".yaml", ".yml"):
        raise ConfigError(
            f"{name_or_path!r} is neither a preset nor a YAML file: "
            f"{suggestion(name_or_path, PRESETS)}presets: {', '.join(PRESETS)}"
        )
    values, _ = load_run_yaml(path)  # a run's own config.yaml says where its data was
    if "sweep" in values:
        raise ConfigError(f"{path} describes a sweep, not a run: heterofl-ray sweep {path}")
    with settings_of(path):
        return from_values(values)


def from_values(values: dict[str, Any]) -> ExperimentConfig:
    """The config of nested plain values, which may start from a preset."""
    values = dict(values)
    base = values.pop("preset", None)
    if base is None:
        return ExperimentConfig.from_dict(values)
    if not isinstance(base, str) or base not in PRESETS:
        raise ConfigError.unknown("preset", base, PRESETS)
    return PRESETS[base]().merge(values)
