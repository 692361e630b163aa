"""Models by name. Users add their own with `register_model`.

Importing this module does not import torch: a family names its factory, and `build` loads it.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.models.spec import ModelSpec

if TYPE_CHECKING:
    from torch import nn

    from heterofl_ray.models.layout import Layout, Place


@dataclass(frozen=True)
class Family:
    """A kind of model and what it expects."""

    factory: str | Callable[[float], Any]
    """'module:function' taking (spec, rate); or a user's own function of the rate."""
    task: str = "images"
    default_norm: str = "none"
    example_input: tuple[int, ...] = (1, 28, 28)
    """The input of the paper, for which costs are shown unless another is named."""
    example_outputs: int = 10
    segments: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    label_rows: Sequence[str] = ()
    blocks: str = ""
    """The setting of `NetworkConfig` that says how many blocks it has; empty: it has none."""


TASKS = ("images", "text", "sequences")
DEFAULT_BLOCKS = 4
"""Of conv, preresnet and mlp at their own widths."""
_MODULE = "heterofl_ray.models."
MODELS: dict[str, Family] = {
    "conv": Family(_MODULE + "conv:Conv", default_norm="sbn", blocks="hidden"),
    **{
        name: Family(
            _MODULE + f"preresnet:{function}",
            default_norm="sbn",
            example_input=(3, 32, 32),
            blocks="hidden",
        )
        for name, function in (
            ("preresnet18", "preresnet18"),
            ("preresnet18-paper", "preresnet18_paper"),
        )
    },
    "transformer": Family(
        _MODULE + "transformer:Transformer",
        task="text",
        default_norm="ln",
        example_input=(64,),
        example_outputs=33279,
        blocks="layers",
    ),
    "encoder": Family(
        _MODULE + "encoder:Encoder",
        task="sequences",
        default_norm="ln",
        example_input=(2, 128),
        example_outputs=2,
        blocks="layers",
    ),
    "mlp": Family(_MODULE + "mlp:MLP", blocks="hidden"),
    "party": Family(_MODULE + "party_cnn:PartyCNN", default_norm="ln"),
}


def register_model(
    name: str,
    factory: Callable[[float], nn.Module],
    *,
    task: str = "images",
    segments: Mapping[str, Mapping[int, int]] | None = None,
    label_rows: Sequence[str] = (),
) -> None:
    """Make ``factory(rate) -> nn.Module`` available as ``model=name``.

    How the model is cut is derived from its shapes at several rates: an axis that shrinks keeps its
    leading entries. Where shapes cannot tell (heads, fused projections, a flattened feature map),
    ``segments={"parameter": {axis: count}}`` says how many equal parts an axis has, each of which
    keeps its own leading entries; 1 means plain leading entries. ``label_rows`` names the
    parameters whose first axis is the classes, so that clients count only for labels they hold.
    """
    if not name or (name in MODELS and isinstance(MODELS[name].factory, str)):
        raise ConfigError.of("model name", name, "must be new and not empty")
    if task not in TASKS:
        raise ConfigError.unknown("task", task, TASKS)
    MODELS[name] = Family(factory, task=task, segments=segments or {}, label_rows=label_rows)


def family(name: str) -> Family:
    if name not in MODELS:
        raise ConfigError.unknown("model", name, MODELS)
    return MODELS[name]


def block_count(config: ExperimentConfig) -> int:
    """How many blocks a config's model has; 0: they are not known."""
    match family(config.model).blocks:
        case "layers":
            return config.network.layers
        case "hidden":
            return len(config.network.hidden) or DEFAULT_BLOCKS
        case _:
            return 0


def make_spec(
    config: ExperimentConfig,
    input_shape: tuple[int, ...],
    outputs: int,
    vocabulary: int = 0,
    per_token: bool = False,
) -> ModelSpec:
    """What a config's model must fit, for data of this shape."""
    norm = family(config.model).default_norm
    return ModelSpec(
        config.model, input_shape, outputs, config.network, norm, vocabulary, per_token
    )


def build(spec: ModelSpec, rate: float) -> nn.Module:
    """The model at ``rate``, freshly initialised."""
    kind = family(spec.name)
    if isinstance(kind.factory, str):
        fitted = replace(spec, default_norm=kind.default_norm)
        model: nn.Module = pkgutil.resolve_name(kind.factory)(fitted, rate)
    else:
        model = kind.factory(rate)
    return model


def initial(spec: ModelSpec, rate: float) -> nn.Module:
    """The model that a run starts from: freshly initialised, or with weights from a file."""
    model = build(spec, rate)
    if spec.network.pretrained:
        from heterofl_ray.models.pretrained import put_weights

        put_weights(model, spec, rate)
    return model


def places(spec: ModelSpec, rate: float) -> dict[str, Place]:
    """In which block of the model each parameter is; those of the head are left out."""
    from heterofl_ray.models.layout import read_blocks
    from heterofl_ray.models.outlines import shapes_only

    with shapes_only():
        return read_blocks(build(spec, rate))


def layout(spec: ModelSpec, rate: float) -> Layout:
    """How the model at ``rate`` is laid out in channel groups."""
    from heterofl_ray.models.derived import derive_layout
    from heterofl_ray.models.layout import read_layout
    from heterofl_ray.models.outlines import shapes_only

    kind = family(spec.name)
    if isinstance(kind.factory, str):
        with shapes_only():
            return read_layout(build(spec, rate))
    return derive_layout(
        spec.name, kind.factory, rate, segments=kind.segments, label_rows=kind.label_rows
    )
