"""What a model must fit: its input, its outputs and the network settings."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from heterofl_ray.errors import ConfigError
from heterofl_ray.mixes import Level
from heterofl_ray.setting_groups import NetworkConfig


@dataclass(frozen=True)
class ModelSpec:
    """One architecture at full width; `registry.build` makes it at any rate."""

    name: str
    input_shape: tuple[int, ...]
    """Channels, height, width of an image; a text's window; (2, length) of sequences."""
    outputs: int
    """Classes, or words of the vocabulary."""
    network: NetworkConfig
    default_norm: str = "none"
    vocabulary: int = 0
    """Sequences: the words that can come in."""
    per_token: bool = False
    """Sequences: outputs for every token, not for the whole sequence."""
    depth: int = 0
    """Bottom blocks that are kept, with a head of their own; 0: all."""

    def at(self, level: Level) -> ModelSpec:
        """The same with the level's depth; or a participant's own architecture."""
        own = level.participant
        if own is None:
            return dataclasses.replace(self, depth=level.depth)
        dropout = self.network.dropout if own.dropout is None else own.dropout
        network = dataclasses.replace(self.network, hidden=own.widths, dropout=dropout)
        return dataclasses.replace(self, name=own.model, network=network)

    @property
    def norm(self) -> str:
        return self.default_norm if self.network.norm == "auto" else self.network.norm

    @property
    def scaler(self) -> bool:
        return self.network.scaler

    @property
    def hidden(self) -> tuple[int, ...]:
        return self.network.hidden

    def stage_widths(self, default: tuple[int, ...]) -> tuple[int, ...]:
        """The hidden widths of a model whose number of stages is fixed."""
        if self.hidden and len(self.hidden) != len(default):
            raise ConfigError.of(
                "network.hidden", list(self.hidden), f"{self.name} has {len(default)} widths"
            )
        return self.hidden or default
