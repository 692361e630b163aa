"""What a run says about itself, as events of its journal. Times are fixed here, once.

An event that is sent twice carries the same time both times, and so counts once.
"""

from __future__ import annotations

import getpass
import json
import os
import platform
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from heterofl_ray import __version__
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.info import DataInfo
from heterofl_ray.settings import describe
from heterofl_ray.tracking.destination import chosen_uri, without_password
from heterofl_ray.tracking.journal import Event

FINISHED, FAILED, KILLED = "FINISHED", "FAILED", "KILLED"
LONGEST = 6000
"""Characters of a parameter that MLflow keeps."""
_PRIVATE = ("tracking.uri",)
"""Settings that may hold a password."""


def start(config: ExperimentConfig, folder: Path, info: DataInfo, data_folder: Path) -> Event:
    """The beginning of a run; ``key`` names it for good, whatever MLflow calls it."""
    begun = _begun(config, folder)
    begun |= {"params": _params(config), "data": _data(config, info, data_folder)}
    return begun | ({"parent": config.tracking.parent} if config.tracking.parent else {})


def start_sweep(config: ExperimentConfig, folder: Path, params: Mapping[str, str]) -> Event:
    """The beginning of a sweep around ``config``."""
    return _begun(config, folder) | {"sweep": True, "params": {**_params(config), **params}}


def _begun(config: ExperimentConfig, folder: Path) -> Event:
    return {
        "kind": "start",
        "time": now(),
        "key": uuid.uuid4().hex,
        "name": folder.name,
        "uri": without_password(chosen_uri(config.tracking)),
        "experiment": config.tracking.experiment,
        "tags": _tags(config, folder),
    }


def resumed(number: int, what: str = "round") -> Event:
    """It goes on after so many rounds, or trials."""
    return {"kind": "resumed", "time": now(), what: number, "what": what}


def trial(record: Mapping[str, Any], values: Mapping[str, float]) -> Event:
    """A sweep's trial has ended; ``values`` are the sweep's own figures since then."""
    return {"kind": "trial", "time": now(), "trial": dict(record), "values": dict(values)}


def round_done(row: Mapping[str, int | float | None]) -> Event:
    values = {name: value for name, value in row.items() if name != "round" and value is not None}
    return {"kind": "metrics", "time": now(), "step": row["round"], "values": values}


def sample(step: int, values: Mapping[str, float]) -> Event:
    """How the machine is doing, under the names that MLflow's own pages know."""
    named = {f"system/{name}": value for name, value in values.items()}
    return {"kind": "system", "time": now(), "step": step, "values": named}


def files() -> Event:
    """The run's files are in place: history, model, figures."""
    return {"kind": "files", "time": now()}


def end(status: str) -> Event:
    return {"kind": "end", "time": now(), "status": status}


def now() -> int:
    """Milliseconds, as MLflow counts them."""
    return time.time_ns() // 1_000_000


def _params(config: ExperimentConfig) -> dict[str, str]:
    params = {}
    for name, entry in describe(config).items():
        if name not in _PRIVATE:
            value = entry["default"]
            text = value if isinstance(value, str) else json.dumps(value)
            params[name] = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    return params


def _tags(config: ExperimentConfig, folder: Path) -> dict[str, str]:
    tags = {
        "mlflow.user": _user(),
        "mlflow.source.name": Path(sys.argv[0]).name or "python",
        "mlflow.source.type": "LOCAL",
        "config_hash": config.hash(),
        "run_dir": str(folder.resolve()),
        "host": socket.gethostname(),
        "version.heterofl-ray": __version__,
        "version.python": platform.python_version(),
    }
    for package in ("torch", "ray"):
        try:
            tags[f"version.{package}"] = version(package)
        except PackageNotFoundError:
            continue
    commit = _git_commit()
    return tags | ({"mlflow.source.git.commit": commit} if commit else {})


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container's user may have no name
        return "unknown"


def _git_commit() -> str:
    """The commit of the checkout that the user works in; empty outside of one.

    A submitted job runs in a copy without its history, and is told where it was submitted from.
    """
    place = os.environ.get("HETEROFL_BASE_DIR") or "."
    command = ["git", "-C", place, "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=2, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _data(config: ExperimentConfig, info: DataInfo, folder: Path) -> dict[str, Any]:
    """The data set, named by its content: the folder's name ends in a digest of it."""
    return {
        "name": config.data,
        "digest": folder.name.rpartition("-")[2],
        "folder": str(folder),
        "kind": info.kind,
        "train": info.train,
        "test": info.test,
        "shape": list(info.shape),
        "dtype": info.dtype,
        "outputs": info.outputs,
        "bytes": info.bytes,
        "origin": info.origin,
        "partition": config.partition,
        "clients": config.clients,
    }
