"""The files of ``cluster/``, for those who check them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).parents[2]
CLUSTER = REPOSITORY / "cluster"


def load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CLUSTER / name).read_text())
    return found
