"""``heterofl-ray run``: train as a preset or a YAML file says."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from heterofl_ray import preflight, presets
from heterofl_ray.commands.base import add_json, print_json, print_table
from heterofl_ray.data.places import data_dir, stored

NAME = "run"
ABOUT = "train as a preset or a YAML file says"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "experiment",
        metavar="PRESET_OR_YAML",
        help=f"a YAML file of settings, or one of: {', '.join(presets.PRESETS)}",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="change a setting, such as rounds=50 or optimizer.momentum=0; may be repeated",
    )
    parser.add_argument("--data-dir", help="folder of data sets (HETEROFL_DATA_DIR)")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    add_json(parser)


def execute(arguments: argparse.Namespace) -> None:
    config = presets.load(arguments.experiment).override(arguments.set)
    root = data_dir(arguments.data_dir)
    preflight.check(config, stored(root))

    from heterofl_ray.progress import Shown, Silent
    from heterofl_ray.runner import run

    progress = Silent() if arguments.quiet else Shown()
    result = run(config, data_dir=root, progress=progress)
    if arguments.json:
        print_json(result.summary)
    else:
        _show(result.summary)


def _show(summary: Mapping[str, Any]) -> None:
    from rich.table import Table

    metrics = list(summary["global"])
    table = Table("model", title=f"after {summary['rounds']} rounds")
    for name in metrics:
        table.add_column(name, justify="right")

    def add(name: str, scores: Mapping[str, float]) -> None:
        table.add_row(name, *(f"{scores[metric]:.4g}" for metric in metrics))

    add("global", summary["global"])
    if summary["local"]:
        add("local (each client's own labels)", summary["local"])
    table.add_section()
    for level, scores in summary["levels"].items():
        add(f"sub-model {level}", scores)
    print_table(table)
    print(
        f"{summary['seconds']:.0f} s, {summary['megabytes_down']:.1f} MB to clients and as much "
        f"back\nrun kept in {summary['run_dir']}"
    )
