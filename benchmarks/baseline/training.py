"""One client's local training, whatever the task."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.baseline.slicing import Parameters, Update, distribute, index_lists

MOMENTUM, WEIGHT_DECAY, CLIP = 0.9, 5e-4, 1.0


def train_client(
    whole: Parameters,
    model: nn.Module,
    batches: Iterable[tuple[Tensor, Tensor]],
    lr: float,
    labels: Tensor | None = None,
    steps: int | None = None,
) -> Update:
    """Cut the client's parameters out of ``whole``, train ``model`` with them, send them back.

    ``labels`` are those the client holds: other labels' logits become 0. ``steps`` ends it early.
    """
    lists = index_lists(whole, model)
    with torch.no_grad():
        for name, tensor in distribute(whole, lists).items():
            model.get_parameter(name).copy_(tensor)
    optimizer = torch.optim.SGD(
        model.parameters(), lr, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY
    )
    model.train()
    for inputs, targets in islice(batches, steps):
        optimizer.zero_grad()
        logits = model(inputs).flatten(0, -2)
        if labels is not None:
            held = torch.zeros(logits.shape[-1], dtype=torch.bool)
            held[labels] = True
            logits = logits.masked_fill(~held, 0)
        loss = F.cross_entropy(logits, targets.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
    trained = {name: parameter.detach() for name, parameter in model.named_parameters()}
    return Update(trained, lists, labels)
