"""What a sweep's folder tells of its trials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from heterofl_ray.errors import DataError
from heterofl_ray.plain_files import read_json

TRIALS_FILE = "trials.json"


def read_records(folder: Path) -> dict[str, Any]:
    if not (folder / TRIALS_FILE).exists():
        raise DataError(f"{folder}: this sweep has no trial yet")
    records = read_json(folder / TRIALS_FILE)
    if not isinstance(records, dict):
        raise DataError(f"{folder / TRIALS_FILE} is damaged: it holds no trials")
    return records
