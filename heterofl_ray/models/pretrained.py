"""An encoder's weights from a folder in Hugging Face's layout: config.json, model.safetensors.

BERT and RoBERTa name their tensors alike, so one table of names serves both. The classifier is
always new, and so is a pooler that the file does not have. A file with more layers or positions
than the model gives its bottom layers and its first positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from heterofl_ray.errors import ConfigError, DataError, shown
from heterofl_ray.models.spec import ModelSpec
from heterofl_ray.plain_files import NoJson, read_json

SETTING = "network.pretrained"
_KINDS = ("bert", "roberta")
_EMBEDDINGS = {
    "tokens": "embeddings.word_embeddings",
    "positions": "embeddings.position_embeddings",
    "parts": "embeddings.token_type_embeddings",
    "norm": "embeddings.LayerNorm",
}
_LAYER = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.out": "attention.output.dense",
    "norm1": "attention.output.LayerNorm",
    "linear1": "intermediate.dense",
    "linear2": "output.dense",
    "norm2": "output.LayerNorm",
}
_POOLER = {"pooler": "pooler.dense"}
_OLD_ENDINGS = {"gamma": "weight", "beta": "bias"}
_COUNTS = ("num_hidden_layers", "vocab_size", "pad_token_id")
_SIZES = {
    "embedding": "hidden_size",
    "heads": "num_attention_heads",
    "feedforward": "intermediate_size",
    "norm_eps": "layer_norm_eps",
}


def put_weights(model: nn.Module, spec: ModelSpec, rate: float) -> None:
    """Replace the model's fresh weights by those of the folder that the settings name."""
    folder = Path(spec.network.pretrained)
    if rate != 1:
        raise _wrong(folder, f"it is as wide as level a, but the global model has rate {rate:g}")
    config = read_config(folder)
    _check_sizes(folder, config, spec)
    found = _read(folder, config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            theirs = their_name(name)
            if theirs is None or (theirs.startswith("pooler") and theirs not in found):
                continue
            if theirs not in found:
                raise _wrong(folder, f"model.safetensors has no tensor {theirs!r}")
            parameter.copy_(_fitted(found[theirs], parameter, theirs, folder))


def their_name(ours: str) -> str | None:
    """The Hugging Face name of one of our parameters; None: it has none there."""
    path, _, ending = ours.rpartition(".")
    if path.startswith("layers."):
        _, number, inner = path.split(".", 2)
        return f"encoder.layer.{number}.{_LAYER[inner]}.{ending}"
    theirs = {**_EMBEDDINGS, **_POOLER}.get(path)
    return None if theirs is None else f"{theirs}.{ending}"


def read_config(folder: Path) -> dict[str, Any]:
    """config.json, if it is that of a model we know how to read."""
    try:
        config: dict[str, Any] = read_json(folder / "config.json")
    except NoJson:
        raise _wrong(folder, "config.json is not a JSON object") from None
    except DataError as error:
        raise _wrong(folder, str(error)) from None
    if not isinstance(config, dict):
        raise _wrong(folder, "config.json is not a JSON object")
    for name in _COUNTS:
        if type(config.get(name, 0)) is not int:
            raise _wrong(folder, f"config.json has {name} {shown(config[name])}")
    kind, activation = config.get("model_type"), config.get("hidden_act", "gelu")
    if kind not in _KINDS:
        raise _wrong(folder, f"config.json has model_type {kind!r}; known: {', '.join(_KINDS)}")
    if activation != "gelu":
        raise _wrong(folder, f"config.json has hidden_act {activation!r}; encoder has 'gelu'")
    return config


def _check_sizes(folder: Path, config: Mapping[str, Any], spec: ModelSpec) -> None:
    network = spec.network
    for ours, theirs in _SIZES.items():
        if getattr(network, ours) != config.get(theirs):
            raise ConfigError.of(
                f"network.{ours}",
                getattr(network, ours),
                f"{SETTING} has {theirs}={config.get(theirs)} in its config.json",
            )
    layers = config.get("num_hidden_layers", 0)
    if network.layers > layers:
        raise ConfigError.of("network.layers", network.layers, f"{SETTING} has {layers}")
    if spec.vocabulary != config.get("vocab_size"):
        raise _wrong(
            folder,
            f"it knows {config.get('vocab_size')} words and the data has {spec.vocabulary}; "
            f"import the data with --tokenizer {folder}",
        )


def _read(folder: Path, config: Mapping[str, Any]) -> dict[str, Tensor]:
    """The file's tensors by their names within the encoder."""
    try:
        tensors = safetensors.torch.load_file(folder / "model.safetensors")
    except (OSError, safetensors.SafetensorError) as error:
        raise _wrong(folder, f"model.safetensors cannot be read: {error}") from None
    found = {}
    for name, tensor in tensors.items():
        path_, _, ending = name.removeprefix(f"{config['model_type']}.").rpartition(".")
        found[f"{path_}.{_OLD_ENDINGS.get(ending, ending)}"] = tensor
    positions = "embeddings.position_embeddings.weight"
    if config["model_type"] == "roberta" and positions in found:
        # RoBERTa numbers positions from the padding token's number on.
        found[positions] = found[positions][config.get("pad_token_id", 1) + 1 :]
    return found


def _fitted(tensor: Tensor, parameter: Tensor, name: str, folder: Path) -> Tensor:
    """As many rows as the model has positions; and a part's row for both parts if there is one."""
    if tensor.dim() != parameter.dim():
        raise _wrong(folder, f"model.safetensors has {name!r} of {tensor.dim()} axes")
    if "token_type" in name and len(tensor) == 1:
        tensor = tensor.expand(len(parameter), -1)
    if "position" in name:
        if len(tensor) < len(parameter):
            raise _wrong(
                folder,
                f"it has {len(tensor)} positions and the data's sequences {len(parameter)}; "
                f"import the data with --length {len(tensor)} or less",
            )
        tensor = tensor[: len(parameter)]
    if tensor.shape != parameter.shape:
        shapes = f"{tuple(tensor.shape)}, not {tuple(parameter.shape)}"
        raise _wrong(folder, f"model.safetensors has {name!r} of shape {shapes}")
    return tensor.to(parameter.dtype)


def _wrong(folder: Path, reason: str) -> ConfigError:
    return ConfigError.of(SETTING, str(folder), reason)
