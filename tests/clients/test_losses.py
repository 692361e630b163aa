from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heterofl_ray.clients.losses import Objective, absent, masked_cross_entropy


def test_absent_labels_get_logit_zero_not_minus_infinity() -> None:
    """Logits (2, 1, 5), labels {0, 1} held, truth 0: exp(0) = 1 stands for the absent one."""
    loss = masked_cross_entropy(
        torch.tensor([[2.0, 1.0, 5.0]]), torch.tensor([0]), torch.tensor([False, False, True])
    )
    assert loss.item() == pytest.approx(math.log(math.e**2 + math.e + 1) - 2, rel=1e-6)


def test_holding_all_labels_is_plain_cross_entropy() -> None:
    logits, targets = torch.randn(4, 7), torch.tensor([0, 6, 2, 2])
    plain = torch.nn.functional.cross_entropy(logits, targets)
    assert torch.equal(masked_cross_entropy(logits, targets, absent(torch.arange(7), 7)), plain)
    assert torch.equal(masked_cross_entropy(logits, targets), plain)


def test_absent_labels_get_no_gradient() -> None:
    logits = torch.randn(3, 5, requires_grad=True)
    held = absent(torch.tensor([1, 4]), 5)
    masked_cross_entropy(logits, torch.tensor([1, 1, 4]), held).backward()
    assert logits.grad is not None
    assert logits.grad[:, [0, 2, 3]].abs().max() == 0
    assert logits.grad[:, [1, 4]].abs().min() > 0


@settings(max_examples=100, deadline=None)
@given(
    vocabulary=st.integers(1, 30), seed=st.integers(0, 1000), scale=st.sampled_from([0.1, 1, 30])
)
def test_sliced_equals_masked_in_value_and_gradient(
    vocabulary: int, seed: int, scale: float
) -> None:
    torch.manual_seed(seed)
    held = torch.randperm(vocabulary)[: torch.randint(1, vocabulary + 1, ()).item()].sort()[0]
    full = (scale * torch.randn(2, 3, vocabulary, dtype=torch.float64)).requires_grad_()
    own = full.detach()[..., held].clone().requires_grad_()
    local = torch.randint(0, len(held), (2, 3))
    cpu = torch.device("cpu")
    plain = Objective.masked(held, vocabulary, cpu)(full, held[local])
    sliced = Objective.sliced(vocabulary - len(held), cpu)(own, local)
    assert torch.allclose(plain, sliced, rtol=1e-10, atol=1e-10)
    plain.backward()
    sliced.backward()
    assert full.grad is not None
    assert own.grad is not None
    assert torch.allclose(full.grad[..., held], own.grad, rtol=1e-10, atol=1e-12)
