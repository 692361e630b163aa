"""The fused kernel against the plain path: compiled on a GPU, else under Triton's interpreter."""

from __future__ import annotations

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when triton is first imported

pytest.importorskip("triton", reason="triton is not installed: nothing to check")

from hypothesis import given, settings

from heterofl_ray.aggregation import kernels
from heterofl_ray.aggregation.overlap import OverlapMean, plain_add
from heterofl_ray.models.layout import Fixed
from heterofl_ray.submodels.plan import Leading, Picked, Selection, Whole

from .test_overlap import Case, cases

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

LAYOUTS: dict[str, tuple[list[int], list[int], tuple[Selection, ...], list[int]]] = {
    # the tensor, its counts, what is selected, the shape of the weights
    "bias": ([7], [7], (Leading(1, 7, 3),), [1]),
    "linear": ([6, 5], [6, 5], (Leading(1, 6, 4), Leading(1, 5, 2)), [1, 1]),
    "convolution": (
        [6, 4, 3, 3],
        [6, 4, 1, 1],
        (Leading(1, 6, 3), Leading(1, 4, 4), Whole(), Whole()),
        [1, 1, 1, 1],
    ),
    "heads-out": ([12, 5], [12, 5], (Leading(3, 4, 2), Leading(1, 5, 3)), [1, 1]),
    "heads-in": ([5, 12], [5, 12], (Leading(1, 5, 3), Leading(3, 4, 2)), [1, 1]),
    "both-heads": ([6, 6], [6, 6], (Leading(2, 3, 1), Leading(3, 2, 1)), [1, 1]),
    "positions": ([8, 6], [1, 6], (Whole(), Leading(1, 6, 2)), [1, 1]),
    "label-rows": (
        [9, 6],
        [9, 6],
        (Picked(torch.tensor([1, 4, 8])), Leading(1, 6, 2)),
        [3, 1],
    ),
    "label-columns": (
        [6, 9],
        [6, 9],
        (Leading(1, 6, 2), Picked(torch.tensor([0, 5, 7, 8]))),
        [1, 4],
    ),
    "picked-both": (
        [6, 6],
        [6, 6],
        (Picked(torch.tensor([5, 0])), Picked(torch.tensor([2, 3, 1]))),
        [1, 1],
    ),
    "more-than-a-block": ([70, 64], [70, 64], (Leading(1, 70, 65), Leading(1, 64, 33)), [1, 1]),
    "no-labels": ([4, 3], [4, 3], (Picked(torch.tensor([], dtype=torch.long)), Whole()), [0, 1]),
}


def selected_shape(selections: tuple[Selection, ...], shape: list[int]) -> list[int]:
    sizes = []
    for selection, size in zip(selections, shape, strict=True):
        match selection:
            case Leading(segments=segments, inner=inner):
                sizes.append(segments * inner)
            case Picked(places=places):
                sizes.append(len(places))
            case _:
                sizes.append(size)
    return sizes


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("value_type", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("sum_type", [torch.float32, torch.float64])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_type_and_layout(
    layout: str, sum_type: torch.dtype, value_type: torch.dtype, transposed: bool
) -> None:
    shape, count_shape, selections, weight_shape = LAYOUTS[layout]
    values = torch.randn(selected_shape(selections, shape), device=DEVICE).to(value_type)
    if transposed:  # an update that does not lie in memory in its own order
        values = values.transpose(0, -1).contiguous().transpose(0, -1)
    weights = torch.rand(weight_shape, device=DEVICE).to(sum_type)
    start = torch.randn(shape, device=DEVICE, dtype=sum_type)
    results = []
    for add in (plain_add, kernels.fused_add):
        sums, counts = start.clone(), torch.zeros(count_shape, device=DEVICE, dtype=sum_type)
        add(sums, counts, selections, values, weights)
        results.append((sums, counts))
    (plain_sums, plain_counts), (fused_sums, fused_counts) = results
    assert torch.equal(fused_sums, plain_sums)
    assert torch.equal(fused_counts, plain_counts)


@settings(max_examples=100, deadline=None)
@given(case=cases())
def test_any_layout_levels_and_labels(case: Case) -> None:
    means = []
    for fused in (False, True):
        found = {name: tensor.to(DEVICE, copy=True) for name, tensor in case.start.items()}
        mean = OverlapMean(case.layout, found, torch.float64)
        mean._fused = fused
        for client, plan in zip(case.clients, case.plans, strict=True):
            weighed = {n: (v * client.weight).to(DEVICE) for n, v in client.values.items()}
            mean.add(plan, weighed, client.weight, *client.label_weights(DEVICE))
        mean.commit(found)
        means.append(found)
    for name in case.start:
        assert torch.equal(means[0][name], means[1][name])


@pytest.mark.parametrize("device", ["cpu", *(["cuda"] if DEVICE == "cuda" else [])])
def test_which_path_a_device_takes(device: str) -> None:
    mean = OverlapMean({"w": (Fixed(1),)}, {"w": torch.zeros(1, device=device)})
    assert mean._fused == (device == "cuda")
