"""The paper's CNN for MNIST: four 3x3 convolutions and one linear layer."""

from __future__ import annotations

from torch import Tensor, nn

from heterofl_ray.errors import ConfigError
from heterofl_ray.models.layers import Scaler, conv, linear, norm
from heterofl_ray.models.layout import Axis, Fixed, Labels, channels, in_block
from heterofl_ray.models.spec import ModelSpec

WIDTHS = (64, 128, 256, 512)


class Conv(nn.Module):
    """conv -> Scaler -> norm -> ReLU per block, max-pool 2 between blocks, average pool, linear."""

    def __init__(self, spec: ModelSpec, rate: float) -> None:
        super().__init__()
        widths = spec.hidden or WIDTHS
        smallest = 2 ** (len(widths) - 1)
        if min(spec.input_shape[1:]) < smallest:
            side = "x".join(map(str, spec.input_shape[1:]))
            raise ConfigError.of(
                "model",
                "conv",
                f"{len(widths)} blocks need images of {smallest}x{smallest} or more, not {side}",
            )
        blocks: list[nn.Module] = []
        inputs: Axis = Fixed(spec.input_shape[0])
        for index, full in enumerate(widths[: spec.depth or None]):
            outputs = channels(f"conv{index}", full, rate)
            if index:
                blocks.append(nn.MaxPool2d(2))
            blocks += [
                in_block(conv(inputs, outputs, 3, padding=1), index + 1, "conv"),
                Scaler() if spec.scaler else nn.Identity(),
                in_block(norm(spec.norm, outputs), index + 1, "norm"),
                nn.ReLU(inplace=True),
            ]
            inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.classifier = linear(inputs, Labels(spec.outputs))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.blocks(x).mean((2, 3)))
        return logits
