"""``heterofl-ray track status``: what MLflow has of a run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from heterofl_ray.commands.base import add_json, print_json
from heterofl_ray.errors import DataError
from heterofl_ray.tracking import journal
from heterofl_ray.tracking.folder import COMPARISON_FILE
from heterofl_ray.tracking.journal import Sent

NAME = "status"
ABOUT = "what MLflow has of a run, and what it has not"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN_DIR", help="the run's folder, as run printed it")
    add_json(parser)


def execute(arguments: argparse.Namespace) -> None:
    status = status_of(Path(arguments.folder))
    if arguments.json:
        print_json(status)
        return
    print(f"{status['run']}: {status['state']}, {status['sent']} of {status['events']} events sent")
    for name in ("place", "problem"):
        if status[name]:
            print(f"{name}: {status[name]}")
    if status["refused"]:
        print(f"{status['refused']} were refused; tracking/sender.log in its folder says why")


def check_recorded(folder: Path) -> None:
    if not any(
        (folder / name).is_file() for name in ("config.yaml", "sweep.yaml", COMPARISON_FILE)
    ):
        raise DataError(f"{folder} is not the folder of a run: it has no config.yaml")
    if not journal.journal_path(folder).is_file():
        raise DataError(f"{folder}: this run was not recorded for MLflow (tracking.mlflow)")


def status_of(folder: Path) -> dict[str, Any]:
    """The JSON contract of the command."""
    check_recorded(folder)
    sent, entries = Sent.read(folder), journal.read(journal.journal_path(folder))
    last = entries[-1].event if entries else {}
    if journal.is_held(folder, journal.DRIVER):
        state = "running"
    else:
        state = str(last.get("status", "killed")).lower()
    done = sum(entry.end <= sent.offset for entry in entries)
    return {
        "run": str(folder),
        "state": state,
        "events": len(entries),
        "sent": done,
        "left": len(entries) - done,
        "refused": sent.refused,
        "run_id": sent.run_id,
        "place": sent.place,
        "problem": sent.problem,
    }
