"""The job files as modules, for tests."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

JOBS = Path(__file__).parents[2] / "jobs"
FAST = ["--backend", "local", "--quiet", "--json"]
TINY = [
    *("--set", "rounds=1", "--set", "local_epochs=1", "--set", "clients=20"),
    *("--set", "network.hidden=[8,8]", "--set", "tracking.mlflow=false"),
]


def job_file(name: str) -> ModuleType:
    """The file as a module: what it does when it is run is not done."""
    spec = importlib.util.spec_from_file_location(f"job_{name}", JOBS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
