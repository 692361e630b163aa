"""The units of work that a worker runs. A job is pure: run again, it gives the same bytes."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from heterofl_ray.clients.attacks import tampered
from heterofl_ray.clients.calibration import (
    Moments,
    gather_moments,
    needs_calibration,
    put_statistics,
)
from heterofl_ray.clients.compiled_moments import calibration_batch, is_pooled, kept_moments
from heterofl_ray.clients.group_sum import GroupSum
from heterofl_ray.clients.scoring import (
    Headed,
    Score,
    headed_score,
    held_rows,
    score,
    score_sequences,
    testing_mode,
)
from heterofl_ray.clients.trainers.base import Trainer
from heterofl_ray.clients.update import LocalUpdate, client_update, updates_together
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.data.images import ImageClients
from heterofl_ray.data.sequences import SequenceClients
from heterofl_ray.errors import ClientError, GpuFull
from heterofl_ray.mixes import Level
from heterofl_ray.models.layers import assign
from heterofl_ray.submodels.plan import SubmodelPlan
from heterofl_ray.submodels.selectors import Cut

Parameters = Mapping[str, Tensor]


@dataclass(frozen=True)
class ClientReport:
    """The few numbers about one client's training that the driver sees."""

    client: int
    level: str
    loss: float
    examples: int
    moved: int
    """Parameters that went to it."""
    seconds: float
    rejected: str | None = None
    """What was wrong with its update, when that was left out."""
    memory: int = 0
    """Peak bytes on a GPU; 0 on a CPU."""
    returned: int | None = None
    """Parameters that came back; None: as many as went to it."""
    forwards: int = 0
    """Examples' ways forward beside its local epochs; a way back counts as two."""
    bounded: bool = False
    """Whether its update was longer than the bound and was scaled down."""

    @property
    def sent_back(self) -> int:
        return self.moved if self.returned is None else self.returned


@contextmanager
def naming(client: int, level: Level, round_number: int) -> Iterator[None]:
    """Say whose training failed, with the client's own error and where it happened."""
    try:
        yield
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        kind = GpuFull if isinstance(error, torch.OutOfMemoryError) else ClientError
        raise kind(
            f"client {client} at level {level.name} failed in round {round_number}: "
            f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})",
            traceback.format_exc(),
        ) from error


def measure_memory(device: torch.device) -> int:
    """Peak bytes on a GPU since this was last called."""
    if device.type != "cuda":
        return 0
    peak = torch.cuda.max_memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    return peak


@dataclass(frozen=True)
class TrainJob:
    """Local training of a fixed group of clients with the same cut, summed where they ran."""

    round_number: int
    cut: Cut
    clients: tuple[int, ...]
    lr: float

    @property
    def level(self) -> Level:
        return self.cut.level

    @property
    def keeps(self) -> int:
        """How many clients' states follow what `run` returns (see `clients.private`)."""
        return 0

    def trainer(self, bench: Workbench, client: int) -> Trainer:
        """What a client is trained with."""
        return bench.trainer(self.level)

    def run(
        self, bench: Workbench, parameters: Parameters, *states: Parameters | None
    ) -> tuple[Any, ...]:
        """Train every client from the sub-model ``parameters``: reports and their sum.

        ``states`` are what the clients kept, where the job's class has them keep something.
        """
        group = GroupSum(bench, self.cut, parameters, self.labels(bench))
        reports = []
        began = time.perf_counter()
        with naming(self.clients[0], self.level, self.round_number):
            ahead = updates_together(
                bench, self.level, self.clients, self.round_number, self.lr, parameters
            )
        shared = (time.perf_counter() - began) / len(self.clients)
        for client in self.clients:
            started = time.perf_counter() - shared
            report, _ = self.train(bench, group, client, parameters, started, ahead.get(client))
            reports.append(report)
        return reports, group.result()

    def train(
        self,
        bench: Workbench,
        group: GroupSum,
        client: int,
        parameters: Parameters,
        started: float,
        update: LocalUpdate | None = None,
    ) -> tuple[ClientReport, LocalUpdate]:
        """Train one client, unless its ``update`` is there, and add it to its group."""
        measure_memory(bench.device)
        with naming(client, self.level, self.round_number):
            update = update or client_update(
                bench,
                self.level,
                client,
                self.round_number,
                self.lr,
                parameters,
                self.trainer(bench, client),
            )
            receipt = group.add(self.sent(bench, client, parameters, update))
            if receipt.fault is not None and bench.config.server.bad_updates == "fail":
                raise ValueError(f"bad update: {receipt.fault}")
        report = ClientReport(
            client,
            self.level.name,
            update.loss,
            update.examples,
            update.moved,
            time.perf_counter() - started,
            receipt.fault,
            measure_memory(bench.device),
            bounded=receipt.bounded,
        )
        return report, update

    def sent(
        self, bench: Workbench, client: int, parameters: Parameters, update: LocalUpdate
    ) -> LocalUpdate:
        """What the server gets of a client's update: itself, unless the client is hostile."""
        if client not in bench.hostile:
            return update
        own_rows = SubmodelPlan.of(bench.layout(self.level), labels=update.labels)
        start = own_rows.extract(parameters)
        changed = tampered(bench, client, self.round_number, start, update.parameters)
        return replace(update, parameters=changed)

    def labels(self, bench: Workbench) -> Tensor | None:
        """All labels that somebody in the group holds."""
        if not bench.masked:
            return None
        union: Tensor = torch.cat([bench.data.labels(c) for c in self.clients]).unique()
        return union


@dataclass(frozen=True)
class CalibrateJob:
    """Static batch norm's moments over the clients' training examples ``start`` to ``stop``."""

    level: Level
    start: int
    stop: int

    def run(self, bench: Workbench, parameters: Parameters) -> Moments:
        if not isinstance(bench.data, ImageClients):
            raise TypeError("only models of images have static batch norms")
        size, pooled = calibration_batch(bench, self.level), is_pooled(bench)
        batches = bench.data.held_batches(self.start, self.stop, size, bench.device)
        images = (images for images, _ in batches)
        compiled = kept_moments(bench, self.level)
        if compiled is None:
            model = _model(bench, self.level, parameters)
            return gather_moments(model, map(_laid_out, images), pooled)
        model = bench.model(self.level)
        assign(model, parameters)
        return gather_moments(model, images, pooled, compiled.of(model))


@dataclass(frozen=True)
class EvaluateJob:
    """Scores on test examples ``start`` to ``stop``: of everyone's and of the owners' labels."""

    level: Level
    start: int
    stop: int
    owner: int | None = None
    """Whose examples Local scores count; None: everyone's."""

    @torch.no_grad()
    def run(
        self, bench: Workbench, parameters: Parameters, moments: Moments | None
    ) -> dict[str, Score]:
        model = _model(bench, self.level, parameters)
        if moments is not None:
            put_statistics(model, moments)
        testing_mode(model)
        size = bench.config.evaluation.batch_size
        if bench.data.task == "text":
            size *= bench.config.text.window
        scores = {"global": Score()}
        place = self.start
        labels_of = cache(bench.data.labels)
        for inputs, targets in bench.data.test_batches(self.start, self.stop, size, bench.device):
            if bench.data.task == "text" and isinstance(model, Headed):
                scores["global"] += headed_score(model.hidden(inputs), model.head, targets)
                continue
            logits = model(_laid_out(inputs))
            scores["global"] += _score(bench, logits, targets)
            stop = place + len(targets)
            if isinstance(bench.data, ImageClients | SequenceClients):
                owners = bench.data.test_owners(place, stop)
                # partition=natural may leave test examples to nobody
                owned = owners >= 0 if self.owner is None else owners == self.owner
                logits, targets = logits[owned.to(logits.device)], targets[owned.to(targets.device)]
                if bench.masked:
                    labels = [labels_of(owner) for owner in owners[owned].tolist()]
                    held = held_rows(labels, logits.shape[-1])
                    held = held.view(len(held), *[1] * (logits.dim() - 2), logits.shape[-1])
                    logits = logits.masked_fill(~held.to(logits.device), 0)
                if len(targets):
                    scores["local"] = scores.get("local", Score()) + _score(bench, logits, targets)
            place = stop
        return scores


def preparations(bench: Workbench) -> list[Callable[[], object]]:
    """What makes a worker ready for its jobs: every level's trainer, and the statistics of tests.

    In any order. Each may take the compiler a minute, once on a machine.
    """
    levels = bench.config.levels
    tasks: list[Callable[[], object]] = [partial(_prepare, bench, level) for level in levels.levels]
    if needs_calibration(bench.model(levels.largest)):
        tasks.append(partial(kept_moments, bench, levels.largest))
    return tasks


def _prepare(bench: Workbench, level: Level) -> None:
    bench.trainer(level).prepare(bench.model(level), bench.example_objective())


def _score(bench: Workbench, logits: Tensor, targets: Tensor) -> Score:
    if bench.data.task == "sequences":
        return score_sequences(logits, targets, bench.data.dataset.info)
    return score(logits, targets)


def _model(bench: Workbench, level: Level, parameters: Parameters) -> nn.Module:
    """The level's model with these parameters, laid out for forward passes."""
    model = bench.model(level)
    assign(model, parameters)
    for parameter in model.parameters():
        parameter.data = _laid_out(parameter.data)
    return model


def _laid_out(tensor: Tensor) -> Tensor:
    """Channels last, where that is faster: images and kernels on a CPU."""
    if tensor.dim() != 4 or tensor.device.type != "cpu":
        return tensor
    return tensor.contiguous(memory_format=torch.channels_last)
