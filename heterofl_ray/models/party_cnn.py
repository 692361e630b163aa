"""The CNNs of FedMD's participants, which differ in how many filters and layers they have.

The paper (D. Li, J. Wang, "FedMD: Heterogenous Federated Learning via Model Distillation", 2019)
prints filters and dropout alone. Ours: every layer is a 3x3 convolution, a norm, ReLU and dropout,
with 2x2 max-pooling behind it while the image is 4x4 or larger, so that 8x8, 28x28 and 32x32 all
do; one linear layer reads all that is left. Norms are over an example's own values: statistics of
batches would not be the same for public and private examples.
"""

from __future__ import annotations

from torch import Tensor, nn

from heterofl_ray.errors import ConfigError
from heterofl_ray.models.layers import Scaler, conv, norm
from heterofl_ray.models.layout import Axis, Fixed, Labels, channels, tag
from heterofl_ray.models.spec import ModelSpec

WIDTHS = (128, 256)
"""The paper's first participant."""
SMALLEST = 4
"""Sides of an image that is still halved."""


class PartyCNN(nn.Module):
    def __init__(self, spec: ModelSpec, rate: float) -> None:
        super().__init__()
        if len(spec.input_shape) != 3:
            raise ConfigError.of("model", "party", f"is for images, not for {spec.input_shape}")
        inputs: Axis = Fixed(spec.input_shape[0])
        height, width = spec.input_shape[1:]
        layers: list[nn.Module] = []
        for index, full in enumerate(spec.hidden or WIDTHS):
            outputs = channels(f"conv{index}", full, rate)
            layers += [
                conv(inputs, outputs, 3, padding=1),
                Scaler() if spec.scaler else nn.Identity(),
                norm(spec.norm, outputs),
                nn.ReLU(inplace=True),
                nn.Dropout(spec.network.dropout),
            ]
            if min(height, width) >= SMALLEST:
                layers.append(nn.MaxPool2d(2))
                height, width = height // 2, width // 2
            inputs = outputs
        self.layers = nn.Sequential(*layers)
        # a linear layer over channels and places, written so that it can be cut by channels
        classes = Labels(spec.outputs)
        self.classifier = tag(
            nn.Conv2d(inputs.width, classes.width, (height, width)),
            weight=(classes, inputs, Fixed(height), Fixed(width)),
            bias=(classes,),
        )

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.layers(x)).flatten(1)
        return logits
