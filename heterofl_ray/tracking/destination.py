"""Whether a run is recorded in MLflow, and where: the setting, the environment, or by itself."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from heterofl_ray.setting_groups import TrackingConfig, check_tracking_uri

SWITCH = "HETEROFL_MLFLOW"
VARIABLE = "MLFLOW_TRACKING_URI"


def is_on(settings: TrackingConfig) -> bool:
    return settings.mlflow and os.environ.get(SWITCH, "1").lower() not in ("0", "false", "no")


def chosen_uri(settings: TrackingConfig) -> str:
    """What the user chose; empty: the database beside the run folders."""
    if settings.uri:
        return settings.uri
    uri = os.environ.get(VARIABLE, "")
    check_tracking_uri(VARIABLE, uri)
    return uri


def check_destination(settings: TrackingConfig) -> None:
    """A wrong address is answered before anything begins."""
    if is_on(settings):
        chosen_uri(settings)


def without_password(uri: str) -> str:
    """The address as it may be written down."""
    parts = urlsplit(uri)
    if "@" not in parts.netloc:
        return uri
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def full_uri(written: str, folder: Path) -> str:
    """An address from a run's journal with the password that the environment has for it."""
    if not written:
        return f"sqlite:///{beside(folder) / 'mlflow.db'}"
    uri = os.environ.get(VARIABLE, "")
    return uri if without_password(uri) == written else written


def beside(folder: Path) -> Path:
    """The folder of run folders, which holds MLflow's database and files where no server does."""
    return folder.resolve().parent


def place_of(uri: str, experiment_id: str, run_id: str) -> str:
    """Where people find a run: a page of the server, or how to look into the database."""
    uri = without_password(uri)
    if is_server(uri):
        return f"{uri.rstrip('/')}/#/experiments/{experiment_id}/runs/{run_id}"
    return f"run {run_id} (mlflow ui --backend-store-uri {uri})"


def is_server(uri: str) -> bool:
    """A server, not a database that is written to without one."""
    return uri.lower().startswith(("http:", "https:", "databricks"))
