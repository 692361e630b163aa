"""Pre-activation ResNet for CIFAR10, with the customary and the paper's numbers of blocks."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from heterofl_ray.models.layers import Scaler, conv, linear, norm
from heterofl_ray.models.layout import Channels, Fixed, Labels, channels, in_block
from heterofl_ray.models.spec import ModelSpec

WIDTHS = (64, 128, 256, 512)
PRERESNET18 = (2, 2, 2, 2)
# The paper's parameter and FLOP columns belong to this smaller one.
PRERESNET18_PAPER = (1, 1, 1, 2)


class Block(nn.Module):
    """Norm and ReLU before each of two convolutions; the shortcut branches off after the first.

    ``inputs`` and ``outputs`` are residual streams: every layer that reads or writes one shares
    its channels.
    """

    def __init__(
        self, spec: ModelSpec, inputs: Channels, inner: Channels, outputs: Channels, stride: int
    ) -> None:
        super().__init__()
        self.norm1 = norm(spec.norm, inputs)
        self.conv1 = conv(inputs, inner, 3, stride=stride, padding=1, bias=False)
        self.norm2 = norm(spec.norm, inner)
        self.conv2 = conv(inner, outputs, 3, padding=1, bias=False)
        self.shortcut = (
            conv(inputs, outputs, 1, stride=stride, bias=False)
            if stride != 1 or inputs.group != outputs.group
            else None
        )
        self.scaler = Scaler() if spec.scaler else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(self.norm1(self.scaler(x)))
        residual = x if self.shortcut is None else self.shortcut(active)
        out: Tensor = self.conv2(F.relu(self.norm2(self.scaler(self.conv1(active)))))
        return out + residual


class PreResNet(nn.Module):
    def __init__(self, spec: ModelSpec, rate: float, blocks: tuple[int, ...]) -> None:
        super().__init__()
        widths = spec.stage_widths(WIDTHS)
        stream = channels("stage0", widths[0], rate)
        stem = conv(Fixed(spec.input_shape[0]), stream, 3, padding=1, bias=False)
        self.stem = in_block(stem, 0, "stem")
        body: list[nn.Module] = []
        stages = list(zip(widths, blocks, strict=True))[: spec.depth or None]
        for stage, (full, count) in enumerate(stages):
            outputs = channels(f"stage{stage}", full, rate)
            for index in range(count):
                inner = channels(f"stage{stage}.block{index}", full, rate)
                stride = 2 if stage and not index else 1
                block = Block(spec, stream, inner, outputs, stride)
                body.append(in_block(block, stage + 1, f"block{index}"))
                stream = outputs
        self.body = nn.Sequential(*body)
        self.scaler = Scaler() if spec.scaler else nn.Identity()
        self.norm = norm(spec.norm, stream)
        self.classifier = linear(stream, Labels(spec.outputs))

    def forward(self, x: Tensor) -> Tensor:
        features = F.relu(self.norm(self.scaler(self.body(self.stem(x)))))
        logits: Tensor = self.classifier(features.mean((2, 3)))
        return logits


def preresnet18(spec: ModelSpec, rate: float) -> PreResNet:
    return PreResNet(spec, rate, PRERESNET18)


def preresnet18_paper(spec: ModelSpec, rate: float) -> PreResNet:
    return PreResNet(spec, rate, PRERESNET18_PAPER)
