"""Local losses.

Masked cross-entropy replaces the logits of labels a client does not hold by 0 (not by minus
infinity). A client that holds only the rows of its own labels gets the very same loss without the
others: absent labels add exp(0) = 1 each to the softmax's denominator, so

    loss = log( sum over held s of exp(z_s) + number of absent labels ) - z_y
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def masked_cross_entropy(logits: Tensor, targets: Tensor, held: Tensor | None = None) -> Tensor:
    """Mean cross-entropy over all positions, with the logits of labels not ``held`` set to 0.

    ``logits`` has the labels on its last axis; ``held`` are label numbers (None: all).
    """
    return F.cross_entropy(mask_logits(logits, held).flatten(0, -2), targets.flatten())


def mask_logits(logits: Tensor, held: Tensor | None) -> Tensor:
    if held is None:
        return logits
    absent = torch.ones(logits.shape[-1], dtype=torch.bool, device=logits.device)
    absent[held] = False
    return logits.masked_fill(absent, 0)


def sliced_cross_entropy(logits: Tensor, targets: Tensor, absent: int) -> Tensor:
    """`masked_cross_entropy` from the held labels' logits alone.

    ``targets`` count within the held labels; ``absent`` is how many labels are not held.
    """
    total = logits.logsumexp(-1)
    if absent:
        total = torch.logaddexp(total, total.new_tensor(math.log(absent)))
    return (total - logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)).mean()
