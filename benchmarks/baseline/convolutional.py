"""The CNN and the pre-activation ResNet, at any rate, with torch's own batch norm."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional as F

WIDTHS = (64, 128, 256, 512)


class Scaler(nn.Module):
    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        return x / self.rate if self.training else x


def batch_norm(width: int, track: bool) -> nn.BatchNorm2d:
    """Static batch norm: no statistics in training; ``track`` gathers cumulative averages."""
    return nn.BatchNorm2d(width, momentum=None, track_running_stats=track)


def scaled(widths: Sequence[int], rate: float) -> list[int]:
    return [math.ceil(rate * width) for width in widths]


class Conv(nn.Module):
    def __init__(self, rate: float, scaler_rate: float, track: bool, channels: int = 1) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for index, width in enumerate(scaled(WIDTHS, rate)):
            if index:
                layers.append(nn.MaxPool2d(2))
            layers += [
                nn.Conv2d(channels, width, 3, padding=1),
                Scaler(scaler_rate),
                batch_norm(width, track),
                nn.ReLU(inplace=True),
            ]
            channels = width
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return out


class Block(nn.Module):
    def __init__(
        self, inputs: int, outputs: int, stride: int, scaler_rate: float, track: bool
    ) -> None:
        super().__init__()
        self.norm1 = batch_norm(inputs, track)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.norm2 = batch_norm(outputs, track)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.shortcut = (
            nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False) if stride != 1 else None
        )
        self.scaler = Scaler(scaler_rate)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.norm1(self.scaler(x)))
        shortcut = x if self.shortcut is None else self.shortcut(out)
        out = self.conv1(out)
        out = self.conv2(F.relu(self.norm2(self.scaler(out))))
        summed: Tensor = out + shortcut
        return summed


class PreResNet18(nn.Module):
    def __init__(self, rate: float, scaler_rate: float, track: bool) -> None:
        super().__init__()
        widths = scaled(WIDTHS, rate)
        self.conv = nn.Conv2d(3, widths[0], 3, padding=1, bias=False)
        blocks = []
        inputs = widths[0]
        for stage, width in enumerate(widths):
            for index in range(2):
                stride = 2 if stage and not index else 1
                blocks.append(Block(inputs, width, stride, scaler_rate, track))
                inputs = width
        self.blocks = nn.Sequential(*blocks)
        self.scaler = Scaler(scaler_rate)
        self.norm = batch_norm(inputs, track)
        self.linear = nn.Linear(inputs, 10)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.norm(self.scaler(self.blocks(self.conv(x)))))
        out = F.adaptive_avg_pool2d(out, 1)
        logits: Tensor = self.linear(out.flatten(1))
        return logits
