"""The groups of settings: what most people leave as it is.

`config.ExperimentConfig` holds one of each. A setting here is typed as ``group.name``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import urlsplit, urlunsplit

from heterofl_ray.errors import ConfigError
from heterofl_ray.settings import Checked, setting


@dataclass(frozen=True, kw_only=True)
class NetworkConfig(Checked):
    """The shape of the global model at rate 1."""

    group: ClassVar[str] = "network."

    norm: str = setting(
        "auto",
        "normalisation: static batch, instance, group (4), layer, or none; auto: the model's own",
        choices=("auto", "sbn", "in", "gn", "ln", "none"),
    )
    scaler: bool = setting(True, "divide hidden activations by the relative width in training")
    hidden: tuple[int, ...] = setting(
        (), "widths of conv, preresnet, mlp or party; empty: its own", low=1
    )
    embedding: int = setting(256, "transformer, encoder: width of the residual stream", low=1)
    heads: int = setting(
        8, "transformer, encoder: attention heads; every sub-model keeps all", low=1
    )
    feedforward: int = setting(512, "transformer, encoder: width of the feed-forward layers", low=1)
    layers: int = setting(4, "transformer, encoder: encoder layers", low=1)
    dropout: float = setting(0.2, "transformer, encoder, party: dropout", low=0, high=0.99)
    norm_eps: float = setting(1e-5, "encoder: what its norms add to variances", above=0)
    pretrained: str = setting(
        "",
        "encoder: a folder with config.json and model.safetensors of a BERT or RoBERTa, as Hugging "
        "Face lays it out; empty: random weights",
    )

    def _check_together(self) -> None:
        if self.embedding % self.heads:
            raise ConfigError.of(
                "network.heads", self.heads, f"must divide network.embedding={self.embedding}"
            )


@dataclass(frozen=True, kw_only=True)
class TextConfig(Checked):
    """How a token stream becomes training steps."""

    group: ClassVar[str] = "text."

    rows: int = setting(100, "equal rows the training stream is cut into and dealt as", low=1)
    window: int = setting(64, "tokens per row in a step", low=1)
    mask_rate: float = setting(0.15, "share of positions hidden from the model", low=0, high=1)


@dataclass(frozen=True, kw_only=True)
class FeatureSkewConfig(Checked):
    """How much clients' images differ in how they look; each client draws its own once."""

    group: ClassVar[str] = "feature_skew."

    rotation: float = setting(0.0, "largest turn of a client's images, degrees", low=0, high=180)
    noise: float = setting(0.0, "largest noise of a client's images; pixels' std is 1", low=0)

    @property
    def any(self) -> bool:
        return bool(self.rotation or self.noise)


@dataclass(frozen=True, kw_only=True)
class LossConfig(Checked):
    """The local loss."""

    group: ClassVar[str] = "loss."

    masked: str = setting(
        "auto",
        "logits of labels the client does not hold become 0; auto: all but IID images",
        choices=("auto", "on", "off"),
    )
    sliced_vocabulary: bool = setting(
        True, "text: train only the client's own words' rows (same result, less work)"
    )


@dataclass(frozen=True, kw_only=True)
class CapabilityConfig(Checked):
    """assignment=capability: the relative width each client affords."""

    group: ClassVar[str] = "capability."

    values: tuple[float, ...] = setting((), "one per client; empty: drawn", above=0)
    low: float = setting(0.05, "smallest drawn capability", above=0)
    high: float = setting(1.0, "largest drawn capability", above=0)
    drift: float = setting(0.0, "spread of a round's log-normal change of capability", low=0)

    def _check_together(self) -> None:
        if self.low > self.high:
            raise ConfigError.of("capability.low", self.low, f"must be at most high={self.high}")


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig(Checked):
    """The clients' optimiser, made anew for each client and round."""

    group: ClassVar[str] = "optimizer."

    name: str = setting(
        "sgd", "local optimiser", choices=("sgd", "adam", "adamw", "rmsprop", "adagrad")
    )
    momentum: float = setting(0.9, "sgd and rmsprop", low=0, high=0.9999)
    weight_decay: float = setting(5e-4, "L2 penalty", low=0)
    clip_norm: float = setting(1.0, "largest global gradient norm; 0: no clipping", low=0)
    milestones: tuple[int, ...] = setting((), "rounds after which the rate falls", low=1)
    gamma: float = setting(0.1, "factor of the learning rate at a milestone", above=0, high=1)

    def _check_together(self) -> None:
        if list(self.milestones) != sorted(set(self.milestones)):
            raise ConfigError.of("optimizer.milestones", self.milestones, "must increase")


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig(Checked):
    """Tests of the global model and of every level's sub-model."""

    group: ClassVar[str] = "evaluation."

    batch_size: int = setting(100, "images, or windows of text, per test batch", low=1)
    calibrate: str = setting(
        "pooled",
        "static batch norm's statistics: over all examples, or averages over batches (the paper's)",
        choices=("pooled", "per-batch"),
    )
    calibration_batch_size: int = setting(
        0,
        "examples read at once for pooled statistics; 0: batch_size where training is compiled, "
        "else 100; per-batch always reads batch_size",
        low=0,
    )
    overlap: bool = setting(
        False, "test a round while the next one trains, on a pool of workers", runtime=True
    )
    levels: str = setting(
        "final",
        "when every level's sub-model is tested too",
        choices=("final", "always", "never"),
    )


TRAINERS = ("plain", "channels_last", "compiled", "vectorised", "graphed")


@dataclass(frozen=True, kw_only=True)
class ExecutionConfig(Checked):
    """Where and how the work runs."""

    group: ClassVar[str] = "execution."

    backend: str = setting(
        "local",
        "in this process, or on a pool of Ray actors",
        choices=("local", "ray"),
        runtime=True,
    )
    address: str = setting(
        "auto",
        "of a Ray cluster; auto: the one that runs here, else as local; local: one for this run",
        runtime=True,
    )
    workers: int | str = setting(
        "auto", "actors that run clients; auto: as many as there is room", runtime=True
    )
    worker_cpus: float = setting(1.0, "CPUs of an actor", above=0, runtime=True)
    worker_gpus: float | str = setting(
        "auto", "GPUs of an actor, such as 0.25; auto: a quarter where there are any", runtime=True
    )
    device: str = setting("auto", "auto, cpu, cuda or cuda:N; auto: cuda where there is one")
    threads: int = setting(1, "torch threads; part of the result's bytes", low=1, high=1024)
    trainer: str = setting(
        "auto",
        f"how clients train: {', '.join(TRAINERS)}; or by level, as in d=compiled,e=plain; auto: a "
        "fixed rule by device, model and number of steps; measure: the fastest here",
    )
    precision: str = setting(
        "float32", "of the models' products in training", choices=("float32", "bfloat16")
    )
    clients_per_job: int = setting(1, "same-level clients trained and summed together", low=1)
    tries: int = setting(4, "times a job is run before its loss ends the run", low=1, runtime=True)
    patience: float = setting(
        300.0,
        "seconds to wait for a first worker, and for what a parameter server was asked",
        above=0,
        runtime=True,
    )

    @property
    def trainers(self) -> dict[str, str]:
        """The trainers that are set by level."""
        if "=" not in self.trainer:
            return {}
        pairs = [part.strip().partition("=") for part in self.trainer.split(",")]
        return {level: name for level, _, name in pairs}

    def _check_together(self) -> None:
        for name in self.trainers.values() or [self.trainer]:
            if name not in (*TRAINERS, "auto", "measure") or (self.trainers and name == "measure"):
                raise ConfigError.of(
                    "execution.trainer",
                    self.trainer,
                    f"auto, measure, {', '.join(TRAINERS)}, or LEVEL=TRAINER,…",
                )
        if self.workers != "auto" and not (isinstance(self.workers, int) and self.workers >= 1):
            raise ConfigError.of("execution.workers", self.workers, "'auto', or 1 or more")
        gpus = self.worker_gpus
        if gpus != "auto" and not (isinstance(gpus, (int, float)) and 0 <= gpus < math.inf):
            raise ConfigError.of("execution.worker_gpus", gpus, "'auto', or 0 or more")
        check_device("execution.device", self.device)


def check_device(name: str, value: str) -> None:
    """Refuse what is no device's name; whether it is there is seen where it is used."""
    kind, _, index = value.partition(":")
    if value not in ("auto", "cpu", "cuda") and not (
        kind == "cuda" and index.isascii() and index.isdigit()
    ):
        raise ConfigError.of(name, value, "auto, cpu, cuda or cuda:N")


@dataclass(frozen=True, kw_only=True)
class TrackingConfig(Checked):
    """What is kept of a run; not part of the config's hash."""

    group: ClassVar[str] = "tracking."

    root: str = setting("runs", "folder in which each run gets a folder of its own", runtime=True)
    mlflow: bool = setting(
        True, "record runs in MLflow; HETEROFL_MLFLOW=0 switches it off too", runtime=True
    )
    uri: str = setting(
        "",
        "of an MLflow server or database; empty: MLFLOW_TRACKING_URI, else mlflow.db in the root",
        runtime=True,
    )
    experiment: str = setting("heterofl-ray", "MLflow's name for a group of runs", runtime=True)
    wait: float = setting(
        60.0,
        "seconds a run waits at its end for MLflow to have everything",
        low=0,
        runtime=True,
    )
    parent: str = setting(
        "",
        "a trial of a sweep: the key of the run in MLflow it belongs to, whose process sends it",
        runtime=True,
    )

    def _check_together(self) -> None:
        check_tracking_uri("tracking.uri", self.uri)
        refuse_password("tracking.uri", self.uri)
        if not self.experiment.strip():
            raise ConfigError.of("tracking.experiment", self.experiment, "must not be empty")


_TRACKING_URIS = ("http", "https", "sqlite", "postgresql", "mysql", "mssql", "databricks")


def check_tracking_uri(name: str, uri: str) -> None:
    """Folders are refused: only a server or a database takes a metric that is sent twice once."""
    kind = uri.partition(":")[0].partition("+")[0].lower()
    if uri and not (":" in uri and kind in _TRACKING_URIS) and uri != "databricks":
        raise ConfigError.of(
            name, uri, "a server or a database, such as http://host:5000 or sqlite:///mlflow.db"
        )


def refuse_password(name: str, uri: str) -> None:
    """Settings are written down, and what is typed can be seen by others."""
    parts = urlsplit(uri)
    if parts.password is not None:
        hidden = urlunsplit(parts._replace(netloc="…@" + parts.netloc.rpartition("@")[2]))
        raise ConfigError.of(
            name,
            hidden,
            "no place for a password: give the address in MLFLOW_TRACKING_URI, or name and "
            "password in MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD",
        )


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig(Checked):
    """What a run can be resumed from; not part of the config's hash."""

    group: ClassVar[str] = "checkpoint."

    every: int = setting(
        1, "rounds between checkpoints; 0: only after the last", low=0, runtime=True
    )
    keep: int = setting(2, "newest checkpoints kept", low=1, runtime=True)
    best: bool = setting(True, "keep the one with the best global score too", runtime=True)
