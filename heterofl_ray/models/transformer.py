"""The paper's Transformer encoder for masked language modelling on WikiText-2."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heterofl_ray.errors import ConfigError
from heterofl_ray.models.layers import Scaler, embedding, layer_norm, linear
from heterofl_ray.models.layout import Channels, Fixed, Labels, channels, in_block
from heterofl_ray.models.spec import ModelSpec


class Attention(nn.Module):
    """Self-attention whose narrow form keeps every head and the leading channels of each."""

    def __init__(self, stream: Channels, inner: Channels, scaler: nn.Module) -> None:
        super().__init__()
        self.heads = inner.segments
        self.query = linear(stream, inner)
        self.key = linear(stream, inner)
        self.value = linear(stream, inner)
        self.out = linear(inner, stream)
        self.scaler = scaler

    def forward(self, x: Tensor, seen: Tensor | None = None) -> Tensor:
        """``seen`` says which positions are looked at; None: all."""
        query, key, value = (
            self.scaler(project(x)).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        # Divides by the square root of the local head width.
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        out: Tensor = self.scaler(self.out(mixed.transpose(1, 2).flatten(2)))
        return out


class EncoderLayer(nn.Module):
    """Attention and feed-forward, each with its norm after the residual sum."""

    def __init__(
        self,
        stream: Channels,
        inner: Channels,
        feedforward: Channels,
        scaler: nn.Module,
        dropout: float,
        eps: float = 1e-5,
    ) -> None:
        super().__init__()
        self.attention = Attention(stream, inner, scaler)
        self.norm1 = layer_norm(stream, eps)
        self.linear1 = linear(stream, feedforward)
        self.linear2 = linear(feedforward, stream)
        self.norm2 = layer_norm(stream, eps)
        for layer in (self.linear1, self.linear2):
            nn.init.normal_(layer.weight, std=0.02)
        self.scaler = scaler
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, seen: Tensor | None = None) -> Tensor:
        x = self.norm1(x + self.dropout(self.attention(x, seen)))
        hidden = self.dropout(F.gelu(self.scaler(self.linear1(x))))
        out: Tensor = self.norm2(x + self.dropout(self.scaler(self.linear2(hidden))))
        return out


def encoder_layers(
    spec: ModelSpec, rate: float, stream: Channels, scaler: nn.Module, eps: float = 1e-5
) -> Iterator[EncoderLayer]:
    """The model's layers from the bottom, as many as its depth says; each is a block."""
    network = spec.network
    for index in range(spec.depth or network.layers):
        layer = EncoderLayer(
            stream,
            channels(f"layer{index}.heads", network.embedding, rate, network.heads),
            channels(f"layer{index}.feedforward", network.feedforward, rate),
            scaler,
            network.dropout,
            eps,
        )
        yield in_block(layer, index + 1)


class Transformer(nn.Module):
    """Tokens in, logits over the vocabulary out, for every position.

    The token table's last row is the mask token's; the decoder has no such row.
    """

    def __init__(self, spec: ModelSpec, rate: float) -> None:
        super().__init__()
        network = spec.network
        if network.norm not in ("auto", "ln"):
            raise ConfigError.of("network.norm", network.norm, "transformer has layer norms: 'ln'")
        scaler: nn.Module = Scaler() if spec.scaler else nn.Identity()
        stream = channels("stream", network.embedding, rate)
        self.tokens = in_block(embedding(Labels(spec.outputs, extra=1), stream), 0, "tokens")
        self.positions = in_block(embedding(Fixed(spec.input_shape[0]), stream), 0, "positions")
        self.norm = in_block(layer_norm(stream), 0, "norm")
        self.encoder = nn.Sequential(*encoder_layers(spec, rate, stream, scaler))
        hidden = channels("decoder", network.embedding, rate)
        self.decoder1 = linear(stream, hidden)
        self.decoder_norm = layer_norm(hidden)
        self.decoder2 = linear(hidden, Labels(spec.outputs))
        self.scaler = scaler
        self.dropout = nn.Dropout(network.dropout)

    @property
    def head(self) -> nn.Linear:
        """The last layer: `forward` is the head of `hidden`."""
        return self.decoder2

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.head(self.hidden(tokens))
        return logits

    def hidden(self, tokens: Tensor) -> Tensor:
        """What the head turns into logits; tests need not hold the logits of all words at once."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.scaler(self.tokens(tokens)) + self.scaler(self.positions(positions))
        x = self.encoder(self.dropout(self.norm(x)))
        decoded: Tensor = self.decoder_norm(F.gelu(self.scaler(self.decoder1(x))))
        return decoded
