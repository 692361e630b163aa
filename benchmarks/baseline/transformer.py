"""The Transformer encoder for masked language modelling, at any rate."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.baseline.convolutional import Scaler

EMBEDDING, HEADS, FEEDFORWARD, LAYERS, DROPOUT, WINDOW = 256, 8, 512, 4, 0.2, 64


class Attention(nn.Module):
    def __init__(self, width: int, inner: int, scaler_rate: float) -> None:
        super().__init__()
        self.query = nn.Linear(width, inner)
        self.key = nn.Linear(width, inner)
        self.value = nn.Linear(width, inner)
        self.out = nn.Linear(inner, width)
        self.scaler = Scaler(scaler_rate)

    def forward(self, x: Tensor) -> Tensor:
        rows, length, _ = x.shape
        query, key, value = (
            self.scaler(layer(x)).view(rows, length, HEADS, -1).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(2, 3) / math.sqrt(query.shape[-1])
        mixed = scores.softmax(-1) @ value
        out: Tensor = self.scaler(self.out(mixed.transpose(1, 2).reshape(rows, length, -1)))
        return out


class EncoderLayer(nn.Module):
    def __init__(self, width: int, inner: int, feedforward: int, scaler_rate: float) -> None:
        super().__init__()
        self.attention = Attention(width, inner, scaler_rate)
        self.norm1 = nn.LayerNorm(width)
        self.linear1 = nn.Linear(width, feedforward)
        self.linear2 = nn.Linear(feedforward, width)
        self.norm2 = nn.LayerNorm(width)
        self.scaler = Scaler(scaler_rate)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x + self.dropout(self.attention(x)))
        hidden = self.dropout(F.gelu(self.scaler(self.linear1(x))))
        out: Tensor = self.norm2(x + self.dropout(self.scaler(self.linear2(hidden))))
        return out


class Transformer(nn.Module):
    """Tokens in, logits of every word out; the last row of the token table is the mask's."""

    def __init__(self, vocabulary: int, rate: float, scaler_rate: float) -> None:
        super().__init__()
        width = math.ceil(rate * EMBEDDING)
        inner = HEADS * math.ceil(rate * EMBEDDING / HEADS)
        feedforward = math.ceil(rate * FEEDFORWARD)
        self.tokens = nn.Embedding(vocabulary + 1, width)
        self.positions = nn.Embedding(WINDOW, width)
        self.norm = nn.LayerNorm(width)
        self.encoder = nn.Sequential(
            *(EncoderLayer(width, inner, feedforward, scaler_rate) for _ in range(LAYERS))
        )
        self.decoder1 = nn.Linear(width, width)
        self.decoder_norm = nn.LayerNorm(width)
        self.decoder2 = nn.Linear(width, vocabulary)
        self.scaler = Scaler(scaler_rate)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1])
        x = self.scaler(self.tokens(tokens)) + self.scaler(self.positions(positions))
        x = self.encoder(self.dropout(self.norm(x)))
        x = self.decoder_norm(F.gelu(self.scaler(self.decoder1(x))))
        logits: Tensor = self.decoder2(x)
        return logits
