"""ClientUpdate of the paper's Algorithm 1: one client's local training in one round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heterofl_ray.clients.attacks import relabelled
from heterofl_ray.clients.trainers.base import Batch, Trainer
from heterofl_ray.clients.trainers.vectorised import VectorisedTrainer
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.mixes import Level
from heterofl_ray.models.layers import assign, parameters_of
from heterofl_ray.submodels.plan import SubmodelPlan


@dataclass(frozen=True)
class LocalUpdate:
    """What one client sends back."""

    parameters: Mapping[str, Tensor]
    """Label axes hold only ``labels``."""
    labels: Tensor | None
    """The labels it counts for, ascending; None: all."""
    loss: float
    examples: int
    moved: int
    """Parameters that went to the client, and came back."""


def client_update(
    bench: Workbench,
    level: Level,
    client: int,
    round_number: int,
    lr: float,
    parameters: Mapping[str, Tensor],
    trainer: Trainer | None = None,
) -> LocalUpdate:
    """Train the level's slice ``parameters`` on one client's data.

    ``trainer`` is another than the level's.
    """
    model = bench.model(level)
    labels = bench.data.labels(client) if bench.masked else None
    own_rows = SubmodelPlan.of(bench.layout(level), labels=labels)
    start = own_rows.extract(parameters) if bench.sliced else parameters
    assign(model, start)

    batches = local_batches(bench, client, round_number)
    if bench.sliced and labels is not None:
        batches = within(labels.to(bench.device), batches)
    with bench.streams.layers("dropout", round_number, client):
        chosen = trainer or bench.trainer(level)
        loss = chosen.train(model, batches, bench.objective(labels), lr)

    trained = parameters_of(model)
    return LocalUpdate(
        parameters=trained if bench.sliced or labels is None else own_rows.extract(trained),
        labels=labels,
        loss=loss,
        examples=bench.data.examples(client),
        moved=sum(tensor.numel() for tensor in start.values()),
    )


def updates_together(
    bench: Workbench,
    level: Level,
    clients: Sequence[int],
    round_number: int,
    lr: float,
    parameters: Mapping[str, Tensor],
) -> dict[int, LocalUpdate]:
    """Those of ``clients`` that the level's trainer takes at once: equally many examples each."""
    trainer = bench.trainer(level)
    if not isinstance(trainer, VectorisedTrainer):
        return {}
    alike: dict[int, list[int]] = {}
    for client in clients:
        alike.setdefault(bench.data.examples(client), []).append(client)
    start = {name: tensor.to(bench.device) for name, tensor in parameters.items()}
    moved = sum(tensor.numel() for tensor in start.values())
    updates = {}
    for examples, group in alike.items():
        held = [bench.data.labels(client) if bench.masked else None for client in group]
        trained = trainer.train_together(
            bench.model(level),
            start,
            [local_batches(bench, client, round_number) for client in group],
            [bench.objective(labels) for labels in held],
            lr,
        )
        for client, labels, (tensors, loss) in zip(group, held, trained, strict=True):
            own = SubmodelPlan.of(bench.layout(level), labels=labels).extract(tensors)
            updates[client] = LocalUpdate(own, labels, loss, examples, moved)
    return updates


def local_batches(bench: Workbench, client: int, round_number: int) -> Iterator[Batch]:
    """All epochs of one client in one round."""
    random = bench.streams.torch("batches", round_number, client)
    for _ in range(bench.config.local_epochs):
        batches = bench.data.training_batches(client, bench.config.batch_size, random, bench.device)
        yield from relabelled(bench, client, batches)


def within(labels: Tensor, batches: Iterator[Batch]) -> Iterator[Batch]:
    """Token numbers counted within a client's own words; the mask token follows the last."""
    for inputs, targets in batches:
        yield torch.searchsorted(labels, inputs), torch.searchsorted(labels, targets)
