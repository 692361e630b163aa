"""FedMD written down naively: plain loops over whole tensors, nothing of the package's training.

Models, examples and the order in which they come are the package's: these are drawn, not computed.
Without dropout and early stopping.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heterofl_ray.clients.participants import participant_data
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.data.examples import batch_sizes
from heterofl_ray.models import registry

Examples = tuple[Tensor, Tensor]


def normalised(bench: Workbench, images: Tensor) -> Tensor:
    info = bench.data.dataset.info
    mean, std = (torch.tensor(v, dtype=torch.float64)[:, None, None] for v in (info.mean, info.std))
    largest = 255 if images.dtype == torch.uint8 else 1
    return images.float() * (1 / (std * largest)).float() + (-mean / std).float()


def train(
    model: nn.Module,
    optimizer: torch.optim.Adam,
    examples: Examples,
    orders: list[Tensor],
    size: int,
    loss: str,
) -> None:
    """Steps over ``examples``, once in each of ``orders``."""
    inputs, wanted = examples
    model.train()
    for order in orders:
        for some in order.split(batch_sizes(len(order), size)):
            answers = model(inputs[some])
            match loss:
                case "labels":
                    distance = F.cross_entropy(answers, wanted[some])
                case "mae":
                    distance = (answers - wanted[some]).abs().mean()
                case "mse":
                    distance = (answers - wanted[some]).square().mean()
            optimizer.zero_grad()
            distance.backward()
            optimizer.step()


def fedmd(bench: Workbench, cohorts: list[list[int]]) -> tuple[list[nn.Module], list[Tensor]]:
    """Every participant's model at the end, and each round's consensus."""
    config, data = bench.config, participant_data(bench)
    own, streams, levels = config.fedmd, bench.streams, config.levels.levels
    weights = own.weights or [1.0] * len(levels)
    source, public_source = data.dataset.train, data.public.dataset.train

    def orders(purpose: str, t: int, k: int, count: int, passes: int) -> list[Tensor]:
        random = streams.torch(f"{purpose}-batches", t, k)
        return [torch.randperm(count, generator=random) for _ in range(passes)]

    def private(k: int) -> Examples:
        held = torch.from_numpy(data.train[k].copy())
        return normalised(bench, source.images[held]), source.labels[held]

    def public(held: Tensor) -> Examples:
        return normalised(bench, public_source.images[held]), public_source.labels[held]

    models, privately, publicly = [], [], []
    everything = torch.from_numpy(data.public.train[0].copy())
    for k, level in enumerate(levels):
        with streams.layers("initial-model", client=k):
            model = registry.build(bench.spec.at(level), 1.0)
        count = len(everything)
        epochs = orders("public", 0, k, count, own.pretrain_epochs)
        first, *both = (torch.optim.Adam(model.parameters(), own.lr) for _ in range(3))
        train(model, first, public(everything), epochs, own.pretrain_batch, "labels")
        images, labels = private(k)
        epochs = orders("transfer-private", 0, k, len(labels), own.private_epochs)
        train(model, both[0], (images, labels), epochs, own.revisit_batch, "labels")
        models.append(model)
        privately.append(both[0])
        publicly.append(both[1])

    found = []
    for t, cohort in enumerate(cohorts, 1):
        images, _ = public(data.public.drawn(t))
        with torch.no_grad():
            scores = {k: models[k].eval()(images) for k in cohort}
        total = sum(weights[k] for k in cohort)
        consensus = sum(weights[k] * scores[k] for k in cohort) / total
        assert isinstance(consensus, Tensor)
        for k in cohort:
            epochs = orders("digest", t, k, len(images), own.digest_epochs)
            train(models[k], publicly[k], (images, consensus), epochs, own.digest_batch, own.digest)
            mine = private(k)
            epochs = orders("revisit", t, k, len(mine[1]), own.revisit_epochs)
            train(models[k], privately[k], mine, epochs, own.revisit_batch, "labels")
        found.append(consensus)
    return models, found
