"""The multi-layer perceptron of the paper's Standalone, FedAvg and LG-FedAvg rows."""

from __future__ import annotations

import math

from torch import Tensor, nn

from heterofl_ray.models.layers import Scaler, linear, norm
from heterofl_ray.models.layout import Axis, Fixed, Labels, channels, in_block
from heterofl_ray.models.spec import ModelSpec

WIDTHS = (512, 256, 256, 128)


class MLP(nn.Module):
    """linear -> Scaler -> norm -> ReLU per hidden layer, then linear."""

    def __init__(self, spec: ModelSpec, rate: float) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inputs: Axis = Fixed(math.prod(spec.input_shape))
        for index, full in enumerate((spec.hidden or WIDTHS)[: spec.depth or None]):
            outputs = channels(f"hidden{index}", full, rate)
            layers += [
                in_block(linear(inputs, outputs), index + 1, "linear"),
                Scaler() if spec.scaler else nn.Identity(),
                in_block(norm(spec.norm, outputs), index + 1, "norm"),
                nn.ReLU(inplace=True),
            ]
            inputs = outputs
        self.layers = nn.Sequential(*layers)
        self.classifier = linear(inputs, Labels(spec.outputs))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.layers(x.flatten(1)))
        return logits
