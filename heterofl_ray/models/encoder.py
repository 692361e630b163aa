"""A BERT-shaped text encoder with a head for whole sequences or for every token.

Its input is two rows of numbers for each sequence: the tokens, and which part each belongs to
(0: padding, 1: the first text, 2: the second of a pair). RoBERTa is the same network; what it does
otherwise lies in its tokens and in `pretrained`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from heterofl_ray.errors import ConfigError
from heterofl_ray.models.layers import Scaler, embedding, layer_norm, linear
from heterofl_ray.models.layout import Fixed, Labels, channels, in_block
from heterofl_ray.models.spec import ModelSpec
from heterofl_ray.models.transformer import encoder_layers

PARTS = 2
_SPREAD = 0.02
"""Standard deviation of initial weights, BERT's."""


class Encoder(nn.Module):
    """Embeddings, layers with their norms after the residual sums, pooler and classifier."""

    def __init__(self, spec: ModelSpec, rate: float) -> None:
        super().__init__()
        network = spec.network
        if network.norm not in ("auto", "ln"):
            raise ConfigError.of("network.norm", network.norm, "encoder has layer norms: 'ln'")
        scaler: nn.Module = Scaler() if spec.scaler else nn.Identity()
        stream = channels("stream", network.embedding, rate)
        self.tokens = in_block(embedding(Fixed(spec.vocabulary), stream), 0, "tokens")
        self.positions = in_block(embedding(Fixed(spec.input_shape[-1]), stream), 0, "positions")
        self.parts = in_block(embedding(Fixed(PARTS), stream), 0, "parts")
        self.norm = in_block(layer_norm(stream, network.norm_eps), 0, "norm")
        self.layers = nn.ModuleList(encoder_layers(spec, rate, stream, scaler, network.norm_eps))
        hidden = channels("pooler", network.embedding, rate)
        self.pooler = None if spec.per_token else linear(stream, hidden)
        self.classifier = linear(stream if spec.per_token else hidden, Labels(spec.outputs))
        self.scaler = scaler
        self.dropout = nn.Dropout(network.dropout)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=_SPREAD)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits of each sequence; with a head for tokens, of each of its positions."""
        tokens, parts = inputs.unbind(1)
        x = self.hidden(tokens, parts)
        if self.pooler is not None:
            x = torch.tanh(self.scaler(self.pooler(x[:, 0])))
        logits: Tensor = self.classifier(self.dropout(x))
        return logits

    def hidden(self, tokens: Tensor, parts: Tensor) -> Tensor:
        """What the last layer makes of each position; padding is looked at by none."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        embedded = (
            self.scaler(self.tokens(tokens))
            + self.scaler(self.positions(places))
            + self.scaler(self.parts((parts - 1).clamp(min=0)))
        )
        x: Tensor = self.dropout(self.norm(embedded))
        seen = (parts > 0)[:, None, None, :]
        for layer in self.layers:
            x = layer(x, seen)
        return x
