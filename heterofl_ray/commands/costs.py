"""``heterofl-ray costs``: parameters, FLOPs and megabytes per level and of a mix."""

from __future__ import annotations

import argparse
from typing import Any

from heterofl_ray.commands.base import add_json, print_json, print_table
from heterofl_ray.errors import ConfigError
from heterofl_ray.mixes import Mix, parse_mix
from heterofl_ray.models import registry
from heterofl_ray.models.spec import ModelSpec
from heterofl_ray.reporting.numbers import short_number
from heterofl_ray.setting_groups import NetworkConfig

NAME = "costs"
ABOUT = "parameters, FLOPs and megabytes, per level and mix, without training"
BERT_WORDS = 30522


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", required=True, help=", ".join(registry.MODELS))
    parser.add_argument("--mix", default="a-b-c-d-e", help="such as a-e or a3-e7 (%(default)s)")
    parser.add_argument("--shrink", default="0.5", help="ratio between levels (%(default)s)")
    parser.add_argument("--input", help="image as CHANNELSxHEIGHTxWIDTH, text as LENGTH")
    parser.add_argument("--classes", help="outputs of an image model (10) or of an encoder (2)")
    parser.add_argument("--vocabulary", help="words of a text model (33279) or an encoder (30522)")
    parser.add_argument("--norm", default="auto", help="sbn, in, gn, ln or none")
    add_json(parser)


def execute(arguments: argparse.Namespace) -> None:
    family = registry.family(arguments.model)
    shrink = _number("--shrink", arguments.shrink)
    mix = parse_mix(arguments.mix, shrink)
    spec = ModelSpec(
        arguments.model,
        _input_shape(arguments.input, family),
        _outputs(arguments, family),
        NetworkConfig(norm=arguments.norm),
        family.default_norm,
        _vocabulary(arguments, family),
    )
    result = collect(spec, mix, arguments.mix)
    if arguments.json:
        print_json(result)
    else:
        _show(result)


def collect(spec: ModelSpec, mix: Mix, name: str) -> dict[str, Any]:
    """The JSON contract of the command."""
    from heterofl_ray.models.costs import Costs, mix_costs, model_costs

    def figures(costs: Costs) -> dict[str, float]:
        return {
            "parameters": costs.parameters,
            "flops_paper": costs.flops_paper,
            "flops": costs.flops,
            "space_mb": costs.space_mb,
        }

    by_level = [model_costs(spec, level.rate) for level in mix.levels]
    average = mix_costs(mix, by_level)
    return {
        "model": spec.name,
        "levels": {
            level.name: {"rate": level.rate, **figures(costs)}
            for level, costs in zip(mix.levels, by_level, strict=True)
        },
        "mix": {
            "name": name,
            "ratio": average.parameters / by_level[0].parameters,
            **figures(average),
        },
    }


def _show(result: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table("level", title=f"{result['model']}, one example forward")
    for heading in ("rate", "ratio", "parameters", "FLOPs (paper)", "FLOPs", "space (MB)"):
        table.add_column(heading, justify="right")
    largest = next(iter(result["levels"].values()))

    def add(name: str, rate: str, figures: dict[str, float]) -> None:
        table.add_row(
            name,
            rate,
            f"{figures['parameters'] / largest['parameters']:.2f}",
            short_number(figures["parameters"]),
            short_number(figures["flops_paper"]),
            short_number(figures["flops"]),
            f"{figures['space_mb']:.2f}",
        )

    for name, figures in result["levels"].items():
        add(name, f"{figures['rate']:g}", figures)
    table.add_section()
    add(result["mix"]["name"], "", result["mix"])
    print_table(table)


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError.of(option, text, "must be a number") from None


def _input_shape(text: str | None, family: registry.Family) -> tuple[int, ...]:
    if text is None:
        return family.example_input
    sides = text.lower().split("x")
    sequences = family.task == "sequences"  # two rows of numbers, tokens and parts
    wanted = 1 if sequences else len(family.example_input)
    if len(sides) != wanted or not all(side.isascii() and side.isdigit() for side in sides):
        form = "a window's length, such as 64" if wanted == 1 else "such as 1x28x28"
        raise ConfigError.of("--input", text, f"must be {form}")
    shape = tuple(int(side) for side in sides)
    if min(shape) < 1 or max(shape) > 2**20:
        raise ConfigError.of("--input", text, "each side must be from 1 to 1048576")
    return (2, *shape) if sequences else shape


def _outputs(arguments: argparse.Namespace, family: registry.Family) -> int:
    text_model = family.task == "text"
    given, other = ("vocabulary", "classes") if text_model else ("classes", "vocabulary")
    if getattr(arguments, other) is not None and family.task != "sequences":
        raise ConfigError.of(
            f"--{other}", getattr(arguments, other), f"{arguments.model} takes --{given}"
        )
    return _count(given, getattr(arguments, given), family.example_outputs)


def _vocabulary(arguments: argparse.Namespace, family: registry.Family) -> int:
    """The words that can come into an encoder; other models have none, or as many as outputs."""
    if family.task != "sequences":
        return 0
    return _count("vocabulary", arguments.vocabulary, BERT_WORDS)


def _count(given: str, text: str | None, default: int) -> int:
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 2**31):
        raise ConfigError.of(f"--{given}", text, "must be a whole number of 1 or more")
    return int(text)
