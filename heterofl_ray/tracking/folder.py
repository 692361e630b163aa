"""A run's folder: where it is made, and the names of what lies in it."""

from __future__ import annotations

import json
import uuid
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from heterofl_ray.errors import ConfigError

if TYPE_CHECKING:
    from heterofl_ray.config import ExperimentConfig

CONFIG = "config.yaml"
HISTORY = "history.parquet"
REPORT = "report"
TRACKING = "tracking"
"""What the driver and the sender tell each other, see `journal`."""


def create_run_folder(config: ExperimentConfig, data_root: Path) -> Path:
    """A new folder for a run, with its full config, the config's hash and where its data lies."""
    root = Path(config.tracking.root).expanduser()
    stem = f"{config.data}-{config.levels.name}-{datetime.now():%Y%m%d-%H%M%S}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        folder = _new_folder(root, stem)
    except OSError as error:
        raise ConfigError.of(
            "tracking.root", config.tracking.root, f"cannot be written to: {error.strerror}"
        ) from None
    header = f"# config hash {config.hash()}\ndata_dir: {json.dumps(str(data_root))}\n"
    (folder / CONFIG).write_text(header + config.to_yaml(), encoding="utf-8")
    return folder


def _new_folder(root: Path, stem: str) -> Path:
    number = 1
    while True:
        folder = root / (stem if number == 1 else f"{stem}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
        else:
            return folder


def partial(path: Path) -> Path:
    """A file beside ``path`` to write first and rename then, so that nobody sees half of it."""
    return path.with_name(f".partial-{uuid.uuid4().hex}")
