from __future__ import annotations

import pytest
import torch
from torch import nn

from heterofl_ray.clients.calibration import Moments, gather_moments, pooled, put_statistics
from heterofl_ray.models.layers import Scaler, StaticBatchNorm


def twins() -> tuple[nn.Sequential, nn.Sequential]:
    """A model with static batch norms and the same with torch's cumulative ones."""
    torch.manual_seed(0)
    ours = nn.Sequential(
        nn.Conv2d(2, 4, 3), StaticBatchNorm(4), nn.ReLU(), nn.Conv2d(4, 3, 3), StaticBatchNorm(3)
    ).double()
    torch.manual_seed(0)
    theirs = nn.Sequential(
        nn.Conv2d(2, 4, 3),
        nn.BatchNorm2d(4, momentum=None),
        nn.ReLU(),
        nn.Conv2d(4, 3, 3),
        nn.BatchNorm2d(3, momentum=None),
    ).double()
    return ours, theirs


def random_batches() -> list[torch.Tensor]:
    return [torch.randn(size, 2, 7, 7, dtype=torch.float64) for size in (5, 1, 8, 3)]


def test_equals_batch_norm_with_cumulative_averages_fed_the_same_batches() -> None:
    ours, theirs = twins()
    batches = random_batches()
    put_statistics(ours, gather_moments(ours, batches))
    theirs.train()
    for batch in batches:
        theirs(batch)
    for layer in (1, 4):
        assert torch.allclose(ours[layer].mean, theirs[layer].running_mean, atol=1e-12)
        assert torch.allclose(ours[layer].variance, theirs[layer].running_var, atol=1e-12)
    x = torch.randn(4, 2, 7, 7, dtype=torch.float64)
    assert torch.allclose(ours.eval()(x), theirs.eval()(x), atol=1e-12)


def test_clients_queried_apart_add_up_to_clients_queried_together() -> None:
    ours, _ = twins()
    batches = random_batches()
    together = gather_moments(ours, batches)
    apart = Moments()
    for batch in batches:
        apart.add(gather_moments(ours, [batch]))
    assert apart.weight == together.weight == 4
    for name, (mean, variance) in together.averages().items():
        assert torch.allclose(apart.averages()[name][0], mean, atol=1e-12)
        assert torch.allclose(apart.averages()[name][1], variance, atol=1e-12)


def test_by_hand() -> None:
    """Batches {1, 3} and {10}: means 2 and 10, variances 2 and 0 (one value has none)."""
    layer = StaticBatchNorm(1)
    batches = [torch.tensor([[1.0], [3.0]]), torch.tensor([[10.0]])]
    put_statistics(layer, gather_moments(layer, batches))
    assert (layer.mean.item(), layer.variance.item()) == (6.0, 1.0)  # type: ignore[union-attr]


def test_pooled_statistics_by_hand() -> None:
    """Values 1, 3 and 10 in whatever batches: mean 14/3, variance 110/3 - (14/3)^2."""
    for sizes in ([2, 1], [3], [1, 1, 1]):
        layer = StaticBatchNorm(1)
        batches = torch.tensor([[1.0], [3.0], [10.0]]).split(sizes)
        put_statistics(layer, gather_moments(layer, batches, pooled=True))
        assert layer.mean.item() == pytest.approx(14 / 3)  # type: ignore[union-attr]
        assert layer.variance.item() == pytest.approx(110 / 3 - (14 / 3) ** 2)  # type: ignore[union-attr]


def test_pooled_statistics_are_those_of_all_values_a_layer_saw() -> None:
    ours, _ = twins()
    batches = random_batches()
    seen: list[torch.Tensor] = []
    hook = ours[4].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    moments = pooled([gather_moments(ours, [batch], pooled=True) for batch in batches])
    hook.remove()
    variance, mean = torch.var_mean(torch.cat(seen), (0, 2, 3), correction=0)
    assert moments.weight == sum(len(batch) for batch in batches)
    assert torch.allclose(moments.averages()["4"][0], mean, atol=1e-12)
    assert torch.allclose(moments.averages()["4"][1], variance, atol=1e-12)


def test_a_channel_that_never_varies_has_no_variance_below_zero() -> None:
    layer = StaticBatchNorm(1)
    moments = gather_moments(layer, [torch.full((4, 1), 1e4), torch.full((3, 1), 1e4)], pooled=True)
    assert moments.averages()[""][1].item() >= 0


def test_statistics_are_of_the_scaled_input() -> None:
    model = nn.Sequential(Scaler(0.5), StaticBatchNorm(1))
    put_statistics(model, gather_moments(model, [torch.tensor([[1.0], [3.0]])]))
    assert model[1].mean.item() == pytest.approx(4.0)


def test_the_query_leaves_no_observer_and_changes_no_parameter() -> None:
    ours, _ = twins()
    before = [p.clone() for p in ours.parameters()]
    gather_moments(ours, random_batches())
    assert all(torch.equal(a, b) for a, b in zip(before, ours.parameters(), strict=True))
    norms = [module for module in ours if isinstance(module, StaticBatchNorm)]
    assert [norm.observer for norm in norms] == [None, None]
