"""What FedMD's participants do in a round: score public examples, digest the consensus, revisit.

A participant's model is its own: it stays in its state and is never part of what it sends. What it
sends is its scores of public examples.

A static batch norm (a registered model may have some) takes its statistics from the examples at
hand: the public ones that are scored, or the private ones a test of private classes goes by.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heterofl_ray.clients.calibration import gather_moments, needs_calibration, put_statistics
from heterofl_ray.clients.compiled_moments import is_pooled
from heterofl_ray.clients.jobs import (
    ClientReport,
    Parameters,
    TrainJob,
    measure_memory,
    naming,
)
from heterofl_ray.clients.losses import Objective
from heterofl_ray.clients.private import ClientTestJob
from heterofl_ray.clients.scoring import Score, testing_mode
from heterofl_ray.clients.trainers.base import Batch
from heterofl_ray.clients.trainers.ordered_dropout import distillation
from heterofl_ray.clients.trainers.plain import PlainTrainer
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.data.examples import batch_sizes
from heterofl_ray.data.images import ImageClients
from heterofl_ray.data.participants import ParticipantImages
from heterofl_ray.method_settings import FedMDConfig
from heterofl_ray.models.layers import assign, parameters_of

CONSENSUS = "consensus"
"""The name of the scores that the server gives out."""
BASELINE, POOLED = "baseline", "pooled"
"""Scores that a participant keeps beside its model: before the first round, and of the bound."""
BESIDE = "scores/"
PUBLIC, PRIVATE = "public", "private"
"""The two optimisers of a participant, which go on from round to round."""
Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class PublicScores:
    """What a participant sends: its scores of a round's public examples, or nothing."""

    scores: Tensor | None
    weight: float = 0.0

    def part(self, names: Collection[str]) -> PublicScores:
        """One server takes all of it."""
        return self

    def to(self, device: torch.device) -> PublicScores:
        return self if self.scores is None else replace(self, scores=self.scores.to(device))


@dataclass(frozen=True)
class ParticipantJob(TrainJob):
    """Something that one participant does."""

    @property
    def client(self) -> int:
        return self.clients[0]

    def report(self, bench: Workbench, loss: float, started: float) -> ClientReport:
        examples, seconds = bench.data.examples(self.client), time.perf_counter() - started
        memory = measure_memory(bench.device)
        return ClientReport(
            self.client, self.level.name, loss, examples, 0, seconds, memory=memory, returned=0
        )

    def passes(
        self, bench: Workbench, data: ImageClients, holder: int, size: int, purpose: str
    ) -> Iterator[Iterator[Batch]]:
        """Passes over what ``holder`` has, one after another without end."""
        random = bench.streams.torch(f"{purpose}-batches", self.round_number, self.client)
        while True:
            yield data.training_batches(holder, size, random, bench.device)

    def learn(
        self,
        bench: Workbench,
        batches: Iterable[Batch],
        objective: Objective,
        purpose: str,
        memory: Tensors | None = None,
    ) -> float:
        """Train the resident model; ``memory`` is its optimiser's."""
        trainer = self.trainer(bench, self.client)
        if not isinstance(trainer, PlainTrainer):
            raise TypeError(f"{type(trainer).__name__} forgets its optimiser")
        going_on = replace(trainer, memory=memory)
        with bench.streams.layers(f"{purpose}-dropout", self.round_number, self.client):
            return going_on.train(bench.model(self.level), batches, objective, self.lr)

    def learn_private(
        self,
        bench: Workbench,
        data: ImageClients,
        holder: int,
        epochs: int,
        purpose: str,
        memory: Tensors | None = None,
    ) -> float:
        """Passes over private examples."""
        if not epochs:
            return 0.0
        passes = self.passes(bench, data, holder, bench.config.fedmd.revisit_batch, purpose)
        batches = (batch for _ in range(epochs) for batch in next(passes))
        return self.learn(bench, batches, bench.objective(None), purpose, memory)


@dataclass(frozen=True)
class ScoreJob(ParticipantJob):
    """Communicate: the participant's scores of the round's public examples, before any softmax."""

    def run(
        self, bench: Workbench, parameters: Parameters, *states: Parameters | None
    ) -> tuple[Any, ...]:
        data, started = participant_data(bench), time.perf_counter()
        model = bench.model(self.level)
        with naming(self.client, self.level, self.round_number):
            assign(model, states[0] or {})
            drawn = data.public.drawn(self.round_number)
            found = answers(bench, model, partial(batches_of, bench, data, drawn))
            fault = None if torch.isfinite(found).all() else "its scores are not finite"
            if fault is not None and bench.config.server.bad_updates == "fail":
                raise ValueError(f"bad update: {fault}")
        report = replace(
            self.report(bench, 0.0, started), returned=found.numel(), rejected=fault, examples=0
        )
        weights = bench.config.fedmd.weights
        weight = weights[self.client] if weights else 1.0
        return [report], PublicScores(None) if fault else PublicScores(found, weight)


@dataclass(frozen=True)
class DigestJob(ParticipantJob):
    """Digest the consensus on the round's public examples, then revisit the private ones."""

    @property
    def keeps(self) -> int:
        return 1

    def run(
        self, bench: Workbench, parameters: Parameters, *states: Parameters | None
    ) -> tuple[Any, ...]:
        data, started, settings = participant_data(bench), time.perf_counter(), bench.config.fedmd
        model, before = bench.model(self.level), states[0] or {}
        with naming(self.client, self.level, self.round_number):
            assign(model, before)
            wanted = parameters.get(CONSENSUS)
            public, private = (memory_of(before, name) for name in (PUBLIC, PRIVATE))
            if wanted is not None:  # None: nobody's scores counted
                batches = self.towards(bench, data, wanted.to(bench.device))
                self.learn(bench, batches, digest_objective(settings), "digest", public)
            epochs = settings.revisit_epochs
            loss = self.learn_private(bench, data, self.client, epochs, "revisit", private)
            own = own_copy(model) | memory_state(public, PUBLIC) | memory_state(private, PRIVATE)
            fault = None if is_finite(own) else "its model is not finite"
            if fault is not None and bench.config.server.bad_updates == "fail":
                raise ValueError(f"bad update: {fault}")
        moved = 0 if wanted is None else wanted.numel()
        seen = data.public.size * (1 + 3 * settings.digest_epochs)
        report = replace(
            self.report(bench, loss, started), moved=moved, rejected=fault, forwards=seen
        )
        kept = {**before, **own} if fault is None else None
        return [report], PublicScores(None), kept

    def towards(
        self, bench: Workbench, data: ParticipantImages, consensus: Tensor
    ) -> Iterator[Batch]:
        """The round's public examples with what is to be answered, in a new order each pass."""
        drawn, settings = data.public.drawn(self.round_number), bench.config.fedmd
        random = bench.streams.torch("digest-batches", self.round_number, self.client)
        for _ in range(settings.digest_epochs):
            order = torch.randperm(len(drawn), generator=random)
            for some in order.split(batch_sizes(len(drawn), settings.digest_batch)):
                ((images, _),) = data.public.batches(drawn[some], len(some), bench.device)
                yield images, consensus[some.to(consensus.device)]


@dataclass(frozen=True)
class ParticipantTestJob(ClientTestJob):
    """A participant's scores now, with those it keeps beside its model."""

    def run(self, bench: Workbench, parameters: Parameters, state: Parameters) -> dict[str, Score]:
        kept = {
            name.removeprefix(BESIDE): as_score(tensor)
            for name, tensor in state.items()
            if name.startswith(BESIDE)
        }
        return super().run(bench, parameters, state) | kept


def digest_objective(settings: FedMDConfig) -> Objective:
    """How far a model's scores are from the consensus: the mean over examples and classes.

    The divergence is a mean over examples, times the temperature's square.
    """

    def distance(scores: Tensor, consensus: Tensor, client: Tensor | None = None) -> Tensor:
        match settings.digest:
            case "mae":
                return F.l1_loss(scores, consensus)
            case "mse":
                return F.mse_loss(scores, consensus)
            case _:
                return distillation(scores, consensus, settings.temperature)

    return Objective(distance, None)


@torch.no_grad()
def answers(bench: Workbench, model: nn.Module, batches: Callable[[], Iterable[Batch]]) -> Tensor:
    """What a model says to these examples when it is tested."""
    if needs_calibration(model):
        images = (images for images, _ in batches())
        put_statistics(model, gather_moments(model, images, is_pooled(bench)))
    testing_mode(model)
    return torch.cat([model(images) for images, _ in batches()])


def batches_of(bench: Workbench, data: ParticipantImages, indices: Tensor) -> Iterator[Batch]:
    """Public examples as they are tested."""
    return data.public.batches(indices, bench.config.evaluation.batch_size, bench.device)


def participant_data(bench: Workbench) -> ParticipantImages:
    if not isinstance(bench.data, ParticipantImages):
        raise TypeError("only FedMD has participants")
    return bench.data


def memory_of(state: Parameters, optimizer: str) -> Tensors:
    """What one of a participant's optimisers remembers."""
    start = f"optimizer/{optimizer}/"
    return {n.removeprefix(start): tensor for n, tensor in state.items() if n.startswith(start)}


def memory_state(memory: Parameters, optimizer: str) -> Tensors:
    """The same as a part of the participant's state."""
    return {f"optimizer/{optimizer}/{name}": tensor for name, tensor in memory.items()}


def own_copy(model: nn.Module) -> dict[str, Tensor]:
    """A model's parameters as its participant keeps them."""
    found = parameters_of(model)
    return {name: tensor.to("cpu", copy=True).contiguous() for name, tensor in found.items()}


def is_finite(tensors: Mapping[str, Tensor]) -> bool:
    return all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values())


def as_tensor(score: Score) -> Tensor:
    return torch.tensor([score.examples, score.loss, score.correct], dtype=torch.float64)


def as_score(tensor: Tensor) -> Score:
    examples, loss, correct = tensor.tolist()
    return Score(int(examples), loss, int(correct))
