"""A run's folder: where it is made, and the names of what lies in it."""

from __future__ import annotations

import json
import uuid
from datetime import datetime
from pathlib import Path

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.settings import load_yaml

CONFIG = "config.yaml"
HISTORY = "history.parquet"
REPORT = "report"
"""In a sweep's folder."""
COMPARISON_FILE = "comparison.json"
"""In a comparison's folder."""
TRACKING = "tracking"
"""What the driver and the sender tell each other, see `journal`."""


def create_run_folder(config: ExperimentConfig, data_root: Path) -> Path:
    """A new folder for a run, with its full config, the config's hash and where its data lies."""
    root = Path(config.tracking.root).expanduser()
    stem = f"{config.data}-{config.levels.name}-{datetime.now():%Y%m%d-%H%M%S}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        folder = new_folder(root, stem)
    except OSError as error:
        raise ConfigError.of(
            "tracking.root", config.tracking.root, f"cannot be written to: {error.strerror}"
        ) from None
    text = _header(config, data_root) + config.to_yaml()
    (folder / CONFIG).write_text(text, encoding="utf-8")
    return folder


def _header(config: ExperimentConfig, data_root: Path) -> str:
    """What a run is known by: its config's hash, and where its data lies."""
    return f"# config hash {config.hash()}\ndata_dir: {json.dumps(str(data_root))}\n"


def find_runs(config: ExperimentConfig, root: Path) -> tuple[Path | None, Path | None]:
    """The folders of a finished and of a stopped run of this very experiment, newest first."""
    first = _header(config, root)
    finished, stopped = None, None
    places = Path(config.tracking.root).glob("*/config.yaml")
    for place in sorted(places, key=lambda path: path.stat().st_mtime):
        with place.open(encoding="utf-8") as file:
            if file.read(len(first)) != first:
                continue
        if _hash_now(place) != config.hash():
            continue
        if (place.parent / "result.json").is_file():
            finished = place.parent
        else:
            stopped = place.parent
    return finished, stopped


def _hash_now(path: Path) -> str | None:
    """Of a run's values: what it left at a default may be another one since."""
    try:
        values = load_yaml(path)
        values.pop("data_dir", None)
        return ExperimentConfig.from_dict(values).hash()
    except ConfigError:
        return None


def new_folder(root: Path, stem: str) -> Path:
    """A folder that was not there, named by the stem and a number if need be."""
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
