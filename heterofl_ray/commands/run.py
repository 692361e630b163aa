"""``heterofl-ray run``: train as a preset or a YAML file says."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heterofl_ray import preflight, presets
from heterofl_ray.commands.base import add_data_dir, add_json, add_set, print_json, print_table
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.places import data_dir, stored

if TYPE_CHECKING:
    from heterofl_ray.result import RunResult

NAME = "run"
ABOUT = "train as a preset or a YAML file says"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "experiment",
        metavar="PRESET_OR_YAML",
        help=f"a YAML file of settings, or one of: {', '.join(presets.PRESETS)}",
    )
    add_set(parser, "rounds=50 or optimizer.momentum=0")
    add_execution(parser)
    add_data_dir(parser)
    add_json(parser)


def add_execution(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--backend", choices=("local", "ray"), help="execution.backend")
    parser.add_argument("--address", help="of a Ray cluster that runs (execution.address)")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")


def execution_overrides(arguments: argparse.Namespace) -> list[str]:
    """What ``--backend`` and ``--address`` set; naming a cluster means using Ray."""
    overrides = []
    if arguments.address is not None:
        overrides += [f"execution.address={arguments.address}", "execution.backend=ray"]
    if arguments.backend is not None:
        overrides.append(f"execution.backend={arguments.backend}")
    return overrides


def execute(arguments: argparse.Namespace) -> None:
    overrides = [*arguments.set, *execution_overrides(arguments)]
    config = presets.load(arguments.experiment).override(overrides)
    root = data_dir(arguments.data_dir)
    preflight.check(config, stored(root))
    show_result(train(config, root, arguments.quiet).summary, arguments.json)


def train(config: ExperimentConfig, root: Path, quiet: bool) -> RunResult:
    """Run a config that was checked, with a Ray that starts while the rest is imported."""
    if config.execution.backend == "ray":
        from heterofl_ray.execution.cluster import connect_early

        connect_early(config)

    from heterofl_ray.progress import Shown, Silent
    from heterofl_ray.runner import run

    return run(config, data_dir=root, progress=Silent() if quiet else Shown())


def show_result(summary: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(summary)
        return
    from rich.table import Table

    metrics = list(summary["global"])
    table = Table("model", title=f"after {summary['rounds']} rounds")
    for name in metrics:
        table.add_column(name, justify="right")

    def add(name: str, scores: Mapping[str, float]) -> None:
        texts = (f"{scores[metric]:.4g}" if metric in scores else "" for metric in metrics)
        table.add_row(name, *texts)

    (largest, first), *smaller = summary["levels"].items()
    own = (Path(summary["run_dir"]) / "clients.safetensors").exists()
    compared = "baseline" in summary["global"]  # FedMD: every level is one participant
    whose = "mean over participants" if compared else "clients' own models"
    add(whose if own else f"global model (level {largest})", summary["global"])
    if summary["local"] and summary["local"] != summary["global"]:
        what = "each on its client's examples" if own else "the same on each client's own labels"
        add(what, summary["local"])
    if own and first != summary["global"]:
        smaller.insert(0, (largest, first))
    if smaller:
        table.add_section()
    for level, scores in smaller:
        kept = f"participant {level}" if compared else f"those of level {level}"
        add(kept if own else f"sub-model {level}", scores)
    print_table(table)
    if "epsilon" in summary:
        print(
            f"privacy of a client's data: epsilon {summary['epsilon']:.4g} "
            f"at delta {summary['delta']:g}"
        )
    down, up = summary["megabytes_down"], summary["megabytes_up"]
    print(
        f"{summary['seconds']:.0f} s, {down:.1f} MB to clients and "
        f"{'as much' if up == down else f'{up:.1f} MB'} back\nrun kept in {summary['run_dir']}"
    )
