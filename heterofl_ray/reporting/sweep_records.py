"""What a sweep's folder tells of its trials."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from heterofl_ray.errors import DataError

TRIALS_FILE = "trials.json"


def read_records(folder: Path) -> dict[str, Any]:
    try:
        records = json.loads((folder / TRIALS_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{folder}: this sweep has no trial yet") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{folder / TRIALS_FILE} is damaged: {error}") from None
    return dict(records)
