from __future__ import annotations

import torch
from torch import nn

from heterofl_ray.models.outlines import shapes_only


def build() -> nn.Module:
    model = nn.Sequential(nn.Embedding(7, 5), nn.Linear(5, 3))
    nn.init.normal_(model[1].weight, std=0.02)
    model[1].weight.data.normal_()
    return model


def test_shapes_are_those_of_the_model_and_nothing_is_drawn() -> None:
    expected = {name: p.shape for name, p in build().named_parameters()}
    before = torch.get_rng_state()
    with shapes_only():
        model = build()
    assert {name: p.shape for name, p in model.named_parameters()} == expected
    assert all(p.is_meta for p in model.parameters())
    assert torch.equal(torch.get_rng_state(), before)
    assert not build()[0].weight.is_meta
