"""Layers that know their layout, the Scaler, and the norms of the paper's ablation."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from heterofl_ray.errors import ConfigError
from heterofl_ray.models.layout import Axis, Channels, Fixed, tag


class Scaler(nn.Module):
    """Divides by the relative width while training, so that narrow and wide layers agree in scale.

    ``rate`` is the sub-model's width over the global model's: 1 for the largest level of a mix.
    """

    def __init__(self, rate: float = 1.0) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        return x / self.rate if self.training and self.rate != 1 else x


def set_scaler_rate(model: nn.Module, rate: float) -> None:
    for module in model.modules():
        if isinstance(module, Scaler):
            module.rate = rate


class StaticBatchNorm(nn.Module):
    """Batch normalisation (any rank) that keeps no running statistics while training.

    Statistics for testing are put in by `clients.calibration`; testing without them is refused.
    """

    mean: Tensor | None
    variance: Tensor | None

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", None)
        self.register_buffer("variance", None)
        self.observer: Callable[[Tensor, Tensor, Tensor], None] | None = None
        """Told the input, its mean and its biased variance while training, for calibration."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training and self.mean is None:
            raise RuntimeError("static batch norm has no statistics yet: calibrate before testing")
        if self.training and self.observer is not None:
            # the statistics come with the output: no second pass over the input
            out, mean, inverse = torch.native_batch_norm(
                x, self.weight, self.bias, None, None, True, 0.0, self.eps
            )
            self.observer(x, mean, (inverse.double() ** -2 - self.eps).clamp_min(0))
            return out
        # torch.batch_norm, not F.batch_norm: the latter refuses a batch with one value per channel.
        return torch.batch_norm(
            x,
            self.weight,
            self.bias,
            None if self.training else self.mean,
            None if self.training else self.variance,
            self.training,
            0.0,
            self.eps,
            True,
        )


def norm(kind: str, width: Channels) -> nn.Module:
    """The norm named in ``network.norm`` over ``width`` channels."""
    if kind == "none":
        return nn.Identity()
    if kind == "sbn":
        return tag(StaticBatchNorm(width.width), weight=(width,), bias=(width,))
    groups = {"in": width.width, "gn": 4, "ln": 1}[kind]
    if width.width % groups:
        raise ConfigError.of(
            "network.norm", kind, f"needs widths that 4 divides, and a level has {width.width}"
        )
    return tag(nn.GroupNorm(groups, width.width), weight=(width,), bias=(width,))


def layer_norm(width: Channels, eps: float = 1e-5) -> nn.LayerNorm:
    return tag(nn.LayerNorm(width.width, eps), weight=(width,), bias=(width,))


def conv(
    inputs: Axis,
    outputs: Axis,
    kernel: int,
    *,
    stride: int = 1,
    padding: int = 0,
    bias: bool = True,
) -> nn.Conv2d:
    layer = nn.Conv2d(
        inputs.width, outputs.width, kernel, stride=stride, padding=padding, bias=bias
    )
    return tag(layer, weight=(outputs, inputs, Fixed(kernel), Fixed(kernel)), bias=(outputs,))


def linear(inputs: Axis, outputs: Axis) -> nn.Linear:
    """A linear layer whose bias starts at 0."""
    layer = nn.Linear(inputs.width, outputs.width)
    nn.init.zeros_(layer.bias)
    return tag(layer, weight=(outputs, inputs), bias=(outputs,))


def embedding(entries: Axis, width: Channels) -> nn.Embedding:
    return tag(nn.Embedding(entries.width, width.width), weight=(entries, width))


def assign(model: nn.Module, parameters: Mapping[str, Tensor]) -> None:
    """Give a model its own copy of the parameters.

    Rows of label axes may be fewer than the model was built with: its layers take what they get.
    """
    for name, parameter in model.named_parameters():
        parameter.data = parameters[name].to(parameter.device, copy=True)
        parameter.grad = None


def parameters_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach() for name, parameter in model.named_parameters()}
