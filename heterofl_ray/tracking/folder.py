"""What is kept of a run: its folder, a row per round, the result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.evaluation import Scores
from heterofl_ray.simulation import RoundRecord

Row = dict[str, int | float | None]


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
    (folder / "config.yaml").write_text(header + config.to_yaml(), encoding="utf-8")
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


class History:
    """One row per round, as an Arrow table."""

    def __init__(self, config: ExperimentConfig) -> None:
        self._mix = config.levels
        self.rows: list[Row] = []

    def add(self, record: RoundRecord) -> None:
        row: Row = {
            "round": record.round_number,
            "seconds": record.seconds,
            "lr": record.lr,
            "loss": record.loss,
            "megabytes_down": record.megabytes,
            "megabytes_up": record.megabytes,
            "rejected": sum(report.rejected is not None for report in record.reports),
        }
        for level in self._mix.levels:
            of_level = [
                report
                for report in record.reports
                if report.level == level.name and report.rejected is None
            ]
            row[f"clients_{level.name}"] = len(of_level)
            row[f"loss_{level.name}"] = (
                sum(report.loss for report in of_level) / len(of_level) if of_level else None
            )
        for name, value in _flat_scores(record.scores, self._mix.largest.name).items():
            row[name] = value
        self.rows.append(row)

    def table(self) -> pa.Table:
        names = dict.fromkeys(name for row in self.rows for name in row)
        return pa.table({name: [row.get(name) for row in self.rows] for name in names})

    def total(self, name: str) -> float:
        return sum(row[name] or 0 for row in self.rows)


def _flat_scores(scores: Mapping[str, Scores], largest: str) -> dict[str, float]:
    flat: dict[str, float] = {}
    if largest in scores:
        flat |= {f"global_{name}": value for name, value in scores[largest].overall.items()}
        flat |= {f"local_{name}": value for name, value in scores[largest].local.items()}
    for level, result in scores.items():
        flat |= {f"level_{level}_{name}": value for name, value in result.overall.items()}
    return flat


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
