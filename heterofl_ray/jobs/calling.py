"""How a job is called: its options, the config they make, and the places it reads and writes.

Ray runs a submitted job in a temporary copy of the submitted folder. What is written there is gone
when Ray is, so relative places are taken from HETEROFL_BASE_DIR instead (``heterofl-ray submit``
sets it to the folder it was called in), else from ``~/heterofl-ray``.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from heterofl_ray import preflight, presets
from heterofl_ray.cli import Parser
from heterofl_ray.commands.base import add_data_dir, add_json, add_set
from heterofl_ray.commands.run import add_execution, execution_overrides
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.places import data_dir, stored
from heterofl_ray.errors import ConfigError, DataError

BASE = "HETEROFL_BASE_DIR"


@dataclass(frozen=True)
class Smoke:
    """What ``--smoke`` runs instead: a preset on embedded data, with some settings changed."""

    preset: str
    settings: Sequence[str] = ()


def job_parser(about: str | None) -> argparse.ArgumentParser:
    """The options that every job has; ``about`` is the job file's docstring."""
    parser = Parser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add_set(parser, "rounds=50")
    parser.add_argument(
        "--smoke", action="store_true", help="a short try on embedded data: no download"
    )
    add_execution(parser)
    add_data_dir(parser)
    add_json(parser)
    return parser


def listed(option: str, text: str | None, known: Sequence[str]) -> list[str]:
    """The words of an option such as 'a-e,b-e'; all that are known when it is not given."""
    chosen = list(known) if text is None else text.split(",")
    for word in chosen:
        if word not in known:
            raise ConfigError.unknown(option, word, known)
    return chosen


def make_config(
    arguments: argparse.Namespace, preset: str, smoke: Smoke, settings: Sequence[str] = ()
) -> ExperimentConfig:
    """The preset's config, or the smoke test's, as the job's options change it.

    Jobs run on Ray unless told otherwise.
    """
    chosen = smoke if arguments.smoke else Smoke(preset)
    config = presets.load(chosen.preset).override(
        [
            *chosen.settings,
            *settings,
            "execution.backend=ray",
            *arguments.set,
            *execution_overrides(arguments),
        ]
    )
    root = base_dir() / Path(config.tracking.root).expanduser()
    return config.override([f"tracking.root={root}"])


def data_root(arguments: argparse.Namespace) -> Path:
    chosen = arguments.data_dir
    return data_dir(None if chosen is None else base_dir() / Path(chosen).expanduser())


def check(config: ExperimentConfig, root: Path) -> None:
    """Refuse what cannot be run before anything is started."""
    preflight.check(config, stored(root))
    try:
        preflight.check_data(config, root)
    except DataError as missing:
        raise DataError(f"{missing}; --smoke runs on embedded data") from None


def announce(config: ExperimentConfig, arguments: argparse.Namespace, instead_of: str) -> None:
    """Say what a smoke test is, and where runs will lie."""
    if arguments.quiet:
        return
    if arguments.smoke:
        wanted = presets.load(instead_of).data
        print(
            f"smoke test: embedded data ({config.data}) in place of {wanted}, "
            f"{config.rounds} rounds",
            file=sys.stderr,
        )
    print(f"runs are kept in {config.tracking.root}", file=sys.stderr, flush=True)


def base_dir() -> Path:
    """The folder that relative places start from."""
    here = Path.cwd()
    copied = "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ and "working_dir_files" in here.parts
    if not copied:
        return here
    return Path(os.environ.get(BASE) or "~/heterofl-ray").expanduser().absolute()
