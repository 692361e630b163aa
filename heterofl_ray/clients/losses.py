"""Local losses.

Masked cross-entropy replaces the logits of labels a client does not hold by 0 (not by minus
infinity). A client that holds only the rows of its own labels gets the very same loss without the
others: absent labels add exp(0) = 1 each to the softmax's denominator, so

    loss = log( sum over held s of exp(z_s) + number of absent labels ) - z_y
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Objective:
    """A local loss with what it knows about one client.

    The function is the same for all clients and the client's part is a tensor, so that a trainer
    may compile the one and feed it the other.
    """

    function: Callable[[Tensor, Tensor, Tensor | None], Tensor]
    client: Tensor | None

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        return self.function(logits, targets, self.client)

    @classmethod
    def masked(cls, held: Tensor | None, labels: int, device: torch.device) -> Objective:
        """Over all ``labels``, of which a client knows those ``held`` (None: all)."""
        return cls(masked_cross_entropy, None if held is None else absent(held, labels).to(device))

    @classmethod
    def sliced(cls, absent: int, device: torch.device) -> Objective:
        """Over a client's own labels alone, where ``absent`` others exist."""
        if not absent:
            return cls(sliced_cross_entropy, None)
        # float64, so that a loss in any precision has it exactly
        return cls(
            sliced_cross_entropy,
            torch.tensor(math.log(absent), dtype=torch.float64, device=device),
        )

    @classmethod
    def squared(cls) -> Objective:
        """For numbers instead of labels."""
        return cls(squared_error, None)


def absent(held: Tensor, labels: int) -> Tensor:
    """True for each of ``labels`` that is not among those ``held``."""
    mask = torch.ones(labels, dtype=torch.bool)
    mask[held] = False
    return mask


def masked_cross_entropy(logits: Tensor, targets: Tensor, absent: Tensor | None = None) -> Tensor:
    """Mean cross-entropy over all positions, with the logits of labels ``absent`` set to 0.

    ``logits`` has the labels on its last axis; ``absent`` is a mask over them (None: none is).
    """
    if absent is not None:
        logits = logits.masked_fill(absent, 0)
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


def sliced_cross_entropy(
    logits: Tensor, targets: Tensor, log_absent: Tensor | None = None
) -> Tensor:
    """`masked_cross_entropy` from the held labels' logits alone.

    ``targets`` count within the held labels; ``log_absent`` is the logarithm of how many labels
    are not held (None: all are).
    """
    total = logits.logsumexp(-1)
    if log_absent is not None:
        total = torch.logaddexp(total, log_absent.to(total.dtype))
    return (total - logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)).mean()


def squared_error(outputs: Tensor, targets: Tensor, client: Tensor | None = None) -> Tensor:
    """Mean squared difference; ``client`` is not needed."""
    return F.mse_loss(outputs.flatten(), targets.flatten())
