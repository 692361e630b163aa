"""The operators that `convolution.cpp` computes, as torch's compiler knows them.

Images are [images, rows, columns, channels] here, kernels [K, K, in, out]. Windows begin ``before``
pixels in front of the first row and column, ``stride`` apart; what they have beyond an image is
zeros. What is written here in torch says what an operator means, and is what a graph does that is
run uncompiled.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.grad import conv2d_weight

NAMESPACE = "heterofl_ray"
HANDLE = "AtenTensorHandle"


def convolve(
    images: Tensor, kernel: Tensor, stride: int, before: int, down: int, across: int
) -> Tensor:
    """[images, down, across, out]: what the windows give."""
    padded = _padded(images, len(kernel), stride, before, down, across)
    found = F.conv2d(padded, kernel.permute(3, 2, 0, 1), stride=stride)
    return found.permute(0, 2, 3, 1).contiguous()


def kernel_slopes(images: Tensor, slopes: Tensor, side: int, stride: int, before: int) -> Tensor:
    """[K, K, in, out]: the gradient of the kernel, of that of what the windows gave."""
    padded = _padded(images, side, stride, before, *slopes.shape[1:3])
    shape = (slopes.shape[3], images.shape[3], side, side)
    found: Tensor = conv2d_weight(padded, shape, slopes.permute(0, 3, 1, 2), stride)
    return found.permute(2, 3, 1, 0).contiguous()


def _padded(images: Tensor, side: int, stride: int, before: int, down: int, across: int) -> Tensor:
    """[images, channels, rows, columns]: no more and no less than the windows have."""
    tall, wide = (stride * (count - 1) + side for count in (down, across))
    height, width = images.shape[1:3]
    beyond = (before, wide - before - width, before, tall - before - height)
    return F.pad(images.permute(0, 3, 1, 2), beyond)


def _convolve_shape(
    images: Tensor, kernel: Tensor, stride: int, before: int, down: int, across: int
) -> Tensor:
    return images.new_empty(images.shape[0], down, across, kernel.shape[3])


def _kernel_slopes_shape(
    images: Tensor, slopes: Tensor, side: int, stride: int, before: int
) -> Tensor:
    return images.new_empty(side, side, images.shape[3], slopes.shape[3])


_LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
for _schema, _meaning, _shape in (
    (
        "convolve(Tensor images, Tensor kernel, int stride, int before, int down, int across)",
        convolve,
        _convolve_shape,
    ),
    (
        "kernel_slopes(Tensor images, Tensor slopes, int side, int stride, int before)",
        kernel_slopes,
        _kernel_slopes_shape,
    ),
):
    _LIBRARY.define(f"{_schema} -> Tensor")
    _LIBRARY.impl(_meaning.__name__, _meaning, "CPU")
    _LIBRARY.impl(_meaning.__name__, _shape, "Meta")

OPERATORS = torch.ops.heterofl_ray

CALLED = {
    OPERATORS.convolve.default: (
        f"AOTITorchError aoti_torch_cpu_convolve({HANDLE} images, {HANDLE} kernel, int64_t stride, "
        f"int64_t before, int64_t down, int64_t across, {HANDLE}* made)"
    ),
    OPERATORS.kernel_slopes.default: (
        f"AOTITorchError aoti_torch_cpu_kernel_slopes({HANDLE} images, {HANDLE} slopes, "
        f"int64_t side, int64_t stride, int64_t before, {HANDLE}* made)"
    ),
}
"""By operator, the function of `convolution.cpp` that a compiled step calls."""
