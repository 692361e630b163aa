"""Native convolutions, as a compiled step calls them, against sums written out and torch's own."""

from __future__ import annotations

import itertools
import os
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

from heterofl_ray.clients.trainers import packages
from heterofl_ray.clients.trainers.native import building
from heterofl_ray.clients.trainers.native.operators import OPERATORS, convolve, kernel_slopes

pytestmark = pytest.mark.slow

CLOSE = {torch.float64: 1e-12, torch.float32: 1e-5}


def slowly(
    images: Tensor, kernel: Tensor, slopes: Tensor, stride: int, before: int
) -> tuple[Tensor, Tensor]:
    """What windows give, and the gradient of their kernel, number by number."""
    count, height, width, _ = images.shape
    _, down, across, _ = slopes.shape
    out, d_kernel = torch.zeros_like(slopes), torch.zeros_like(kernel)
    sides = range(len(kernel))
    for n, row, column, y, x in itertools.product(
        range(count), range(down), range(across), sides, sides
    ):
        above, left = row * stride + y - before, column * stride + x - before
        if 0 <= above < height and 0 <= left < width:
            pixel = images[n, above, left]
            out[n, row, column] += pixel @ kernel[y, x]
            d_kernel[y, x] += torch.outer(pixel, slopes[n, row, column])
    return out, d_kernel


def case(
    count: int, height: int, width: int, inputs: int, outputs: int, side: int, stride: int,
    before: int,
) -> tuple[int, ...]:  # fmt: skip
    """The shape of a convolution, with as many windows as begin within an image and its margin."""
    down, across = ((length + 2 * before - side) // stride + 1 for length in (height, width))
    return count, height, width, inputs, outputs, side, stride, before, down, across


SMALL = [
    case(2, 5, 7, 3, 4, 3, 1, 1),  # half a vector of output channels
    case(1, 6, 5, 2, 13, 3, 2, 1),  # a vector, half of one and one alone; a last row without window
    case(3, 4, 4, 5, 35, 2, 1, 0),  # four vectors side by side, and no margin
    case(2, 7, 26, 1, 17, 1, 2, 0),  # one pixel with a stride; two vectors, two blocks of rows
    (2, 3, 3, 4, 8, 2, 1, 0, 3, 3),  # windows that go beyond an image on one side alone
    (1, 3, 4, 4, 9, 2, 1, 1, 4, 5),
    case(2, 5, 8, 3, 4, 3, 1, 1),  # two windows together fill a vector of floats
    case(2, 6, 8, 2, 2, 3, 2, 1),  # four of them with a stride; of doubles two
    case(1, 4, 16, 2, 1, 2, 1, 1),  # one window more than go together
    case(1, 4, 17, 2, 1, 2, 1, 0),  # eight, and four
    case(3, 4, 8, 3, 4, 2, 2, 0),  # which share no pixel, so nothing would be gained
]
USUAL = [
    case(10, 32, 32, 4, 4, 3, 1, 1),
    case(10, 32, 32, 8, 8, 3, 1, 1),
    case(10, 16, 16, 16, 32, 3, 2, 1),
    case(10, 4, 4, 64, 64, 3, 1, 1),
    case(10, 28, 28, 1, 8, 3, 1, 1),
]


def compiled(cases: list[tuple[int, ...]], tensors: list[list[Tensor]], path: Path) -> list[Tensor]:
    """What native code gives for each case: one behind the other, the windows' and the kernel's."""
    flat = [tensor for group in tensors for tensor in group]

    def all_of_it(*given: Tensor) -> Tensor:
        found = []
        for number, (*_, side, stride, before, down, across) in enumerate(cases):
            images, kernel, slopes = given[3 * number : 3 * number + 3]
            found.append(OPERATORS.convolve(images, kernel, stride, before, down, across))
            found.append(OPERATORS.kernel_slopes(images, slopes, side, stride, before))
        return torch.cat([tensor.flatten().double() for tensor in found])

    packages.make(all_of_it, packages.Example(flat), path, threads=1)
    (joined,) = packages.load(path)(flat)
    models = [model for _, kernel, slopes in tensors for model in (slopes, kernel)]
    parts = joined.split([model.numel() for model in models])
    return [part.view_as(model).to(model) for part, model in zip(parts, models, strict=True)]


def test_they_are_the_sums_they_stand_for(tmp_path: Path) -> None:
    cases = [*SMALL, *USUAL] * 2
    dtypes = [torch.float64, torch.float32]
    torch.manual_seed(0)
    tensors = [
        [
            torch.randn(count, height, width, inputs, dtype=dtype),
            torch.randn(side, side, inputs, outputs, dtype=dtype),
            torch.randn(count, down, across, outputs, dtype=dtype),
        ]
        for dtype, (count, height, width, inputs, outputs, side, _, _, down, across) in zip(
            [dtype for dtype in dtypes for _ in range(len(cases) // 2)], cases, strict=True
        )
    ]
    found = compiled(cases, tensors, tmp_path / "all.so")
    for number, (shape, (images, kernel, slopes)) in enumerate(zip(cases, tensors, strict=True)):
        near = CLOSE[images.dtype]
        close = partial(torch.testing.assert_close, rtol=near, atol=100 * near)
        *_, side, stride, before, down, across = shape
        out, d_kernel = found[2 * number : 2 * number + 2]
        close(out, convolve(images, kernel, stride, before, down, across))
        close(d_kernel, kernel_slopes(images, slopes, side, stride, before))
        if shape in SMALL:
            expected, d_expected = slowly(images, kernel, slopes, stride, before)
            close(out, expected)
            close(d_kernel, d_expected)


def test_a_compiler_that_cannot_says_why(tmp_path: Path) -> None:
    broken = tmp_path / "g++"
    broken.write_text("#!/bin/sh\necho no such option >&2\nexit 1\n")
    broken.chmod(0o700)
    graph = torch.fx.symbolic_trace(lambda a, b: OPERATORS.convolve.default(a, b, 1, 0, 1, 1))
    with (
        pytest.raises(RuntimeError, match=r"cannot compile convolution\.cpp:\nno such option"),
        building.linked(graph, str(broken), tmp_path / "libnative.a"),
    ):
        pass
    assert sorted(tmp_path.iterdir()) == [broken], "something was left behind"


def test_what_is_built_is_built_once(tmp_path: Path) -> None:
    graph = torch.fx.symbolic_trace(lambda a, b: OPERATORS.convolve.default(a, b, 1, 0, 1, 1))
    (tmp_path / "libnative.a").touch()
    with building.linked(graph, "no compiler", tmp_path / "libnative.a") as settings:
        assert settings["aot_inductor.custom_op_libs"] == ["native"]
        assert os.environ["LIBRARY_PATH"].split(os.pathsep)[0] == str(tmp_path)


def test_steps_without_convolutions_are_linked_with_nothing(tmp_path: Path) -> None:
    graph = torch.fx.symbolic_trace(lambda a, b: a @ b)
    with building.linked(graph, "no compiler", tmp_path / "libnative.a") as settings:
        assert settings == {}
