"""``heterofl-ray track sync``: send MLflow what it has not got yet."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path

from heterofl_ray.commands.base import add_json, print_json
from heterofl_ray.commands.track_status import check_recorded, status_of
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError, DataError, RunFailed
from heterofl_ray.setting_groups import check_tracking_uri, refuse_password
from heterofl_ray.tracking import events, journal
from heterofl_ray.tracking.folder import COMPARISON_FILE, TRACKING
from heterofl_ray.tracking.sender import Sender, has_ended, prepare
from heterofl_ray.tracking.sweep_sender import sender_of

NAME = "sync"
ABOUT = "send MLflow what it has not got yet of runs; nothing is ever there twice"
_PATIENCE = 30.0
"""Seconds to wait for a sender that is still at work."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", metavar="RUN_DIR", nargs="*", help="runs' or sweeps' folders")
    parser.add_argument("--all", action="store_true", help="every run in the folder of runs")
    default = ExperimentConfig().tracking.root
    parser.add_argument(
        "--root", default=default, help="the folder of runs, with --all (%(default)s)"
    )
    parser.add_argument("--uri", default="", help="the server's address, if it has moved")
    add_json(parser)


def execute(arguments: argparse.Namespace) -> None:
    folders = _folders(arguments)
    check_tracking_uri("--uri", arguments.uri)
    refuse_password("--uri", arguments.uri)
    for folder in folders:
        check_recorded(folder)
    prepare()
    for folder in folders:
        _send(folder, arguments.uri)
    states = [status_of(folder) for folder in folders]
    left = [state for state in states if state["left"] or state["problem"]]
    if arguments.json:
        print_json({"runs": states})
    else:
        for state in states:
            if state not in left:
                print(f"{state['run']}: all {state['events']} events sent; {state['place']}")
    if left:
        events_left = sum(state["left"] for state in left)
        raise RunFailed(
            f"{events_left} events of {', '.join(state['run'] for state in left)} not sent: "
            f"{left[0]['problem'] or 'another process is sending them'}"
        )


def _folders(arguments: argparse.Namespace) -> list[Path]:
    if arguments.all and arguments.folders:
        raise ConfigError("track sync: name runs' folders, or give --all, not both")
    if not arguments.all and not arguments.folders:
        raise ConfigError("track sync: name a run's folder, or give --all")
    if not arguments.all:
        return [Path(folder) for folder in arguments.folders]
    root = Path(arguments.root).expanduser()
    if not root.is_dir():
        raise DataError(f"{root} is not a folder of runs; name it with --root")
    names = ("config.yaml", "sweep.yaml", COMPARISON_FILE)
    runs = [path for name in names for path in root.glob(f"*/{name}")]
    return sorted(path.parent for path in runs if _is_recorded(path.parent))


def _is_recorded(folder: Path) -> bool:
    return journal.journal_path(folder).is_file()


def _send(folder: Path, uri: str) -> None:
    """Send it here, unless a sender is at work, which is waited for."""
    until = time.monotonic() + _PATIENCE
    while True:
        with journal.held(folder, journal.SENDER) as mine:
            if mine:
                _send_here(folder, uri)
                return
        if journal.is_held(folder, journal.DRIVER) or time.monotonic() > until:
            print(f"{folder}: its own sender is at work", file=sys.stderr)
            return
        time.sleep(0.5)


def _send_here(folder: Path, uri: str) -> None:
    """Send it from this process; what goes wrong is told in full where the sender tells it."""
    log = logging.FileHandler(folder / TRACKING / "sender.log")
    logger = logging.getLogger(Sender.__module__)
    logger.addHandler(log)
    logger.propagate = False
    try:
        sender = sender_of(folder, uri)
        left = not journal.is_held(folder, journal.DRIVER)
        if sender.send() and left and not has_ended(folder):
            sender.end(events.KILLED)
    finally:
        logger.propagate = True
        logger.removeHandler(log)
        log.close()
