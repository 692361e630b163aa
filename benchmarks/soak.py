"""``python -m benchmarks soak``: a real cluster under faults, and what became of its runs.

The same small experiment is run again and again on a Ray of several nodes, with its folder on a
disk of its own and a real MLflow server, while workers, servers, nodes, the MLflow server, the disk
and the object store are broken at random, by a schedule that follows from the seed. Every run must
end with the bytes of the same experiment in one process, MLflow must have every metric of every
round exactly once, and every kind of fault must have come.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.measure import shown
from benchmarks.record import record
from benchmarks.soak_faults import KINDS, Fault, Injector, schedule
from benchmarks.soak_outcome import Outcome, figures, missed
from benchmarks.soak_parts import Disk, MlflowServer, Nodes, exactly_once
from benchmarks.soak_watch import OutOfTime, StallWatch, time_limit
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError, RunFailed
from heterofl_ray.progress import Silent
from heterofl_ray.runner import resume, run
from heterofl_ray.simulation import RoundRecord
from heterofl_ray.tracking.destination import SWITCH
from heterofl_ray.tracking.history import Row

NAME = "soak"
ABOUT = "the same runs on a cluster under random faults, against one in one process without any"
LONGEST_MINUTES = 600
GRACE_MINUTES = 30
"""For what comes before the faults and after them, unless --limit says otherwise."""
_SETTINGS = {
    "data": "digits",
    "model": "conv",
    "mix": "a-c",
    "partition": "classes:2",
    "clients": 40,
    "fraction": 0.3,
    "local_epochs": 1,
    "evaluate_every": 10,
    "network": {"hidden": [32, 64]},
}


class Beat(Silent):
    """When each round was done, and where the run's folder is."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.rounds = 0
        self.folder = Path()

    def start(self, config: ExperimentConfig, folder: Path, done: int, moved: float) -> None:
        self.rounds, self.folder = 0, folder

    def update(self, record: RoundRecord, row: Row) -> None:
        self.times.append(time.monotonic())
        self.rounds += 1

    def since_first(self) -> float:
        """Seconds since the first round of all; how long Ray takes to start is not counted."""
        return time.monotonic() - self.times[0] if self.times else 0.0

    def since_last(self) -> float:
        """Seconds since the last round of all."""
        return time.monotonic() - self.times[-1] if self.times else 0.0


class Heard(logging.Handler):
    """Passes on what runs say, and counts: a server that is rebuilt, a checkpoint that fails."""

    rebuilt = 0
    unwritten = 0

    def emit(self, entry: logging.LogRecord) -> None:
        self.rebuilt += "is rebuilt" in entry.getMessage()
        self.unwritten += "could not be written" in entry.getMessage()
        _say(f"{time.strftime('%H:%M:%S')} {entry.getMessage()}")


def soak(minutes: float, seed: int, kinds: Sequence[str], rounds: int) -> Outcome:
    """Run laps until the time is over; faults end with it, and the last lap is finished."""
    outcome, beat, heard = Outcome(seed=seed, kinds=kinds), Beat(), Heard()
    logging.getLogger("heterofl_ray").addHandler(heard)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ[SWITCH] = "1" if "mlflow" in kinds else "0"
    with ExitStack() as stack:
        work = Path(tempfile.mkdtemp(prefix="soak-"))
        stack.callback(shutil.rmtree, work, ignore_errors=True)
        disk = stack.enter_context(Disk(work / "runs"))
        if "disk" in kinds and not disk.mounted:
            others = ",".join(kind for kind in kinds if kind != "disk")
            raise ConfigError.of(
                "--faults", "disk", f"needs the right to mount one, as root has; without: {others}"
            )
        config = ExperimentConfig.from_dict(_SETTINGS | {"rounds": rounds})
        plain = [f"tracking.root={work}/plain", "tracking.mlflow=false"]
        expected = run(config.override(plain), data_dir=work / "data").summary["model_sha256"]
        server = stack.enter_context(MlflowServer(work)) if "mlflow" in kinds else None
        nodes = stack.enter_context(Nodes())
        faulty = [
            *("execution.backend=ray", "execution.tries=100"),
            *(f"tracking.root={disk.place}", "checkpoint.keep=2"),
            *([f"tracking.uri={server.uri}"] if server else []),
        ]
        injector = Injector(schedule(seed, kinds), 60 * minutes, nodes, disk, server, beat)
        thread = threading.Thread(target=injector.run, daemon=True)
        thread.start()
        folders = []
        with StallWatch(beat.since_last):
            while beat.since_first() < 60 * minutes:
                with disk.free:  # a run needs a folder to begin with
                    pass
                summary = _lap(config.override(faulty), work / "data", beat, outcome, disk)
                outcome.laps += 1
                outcome.rounds += int(summary["rounds"])
                outcome.equal += summary["model_sha256"] == expected
                folders.append(Path(summary["run_dir"]))
                same = outcome.equal == outcome.laps
                _say(f"lap {outcome.laps}: {'equal' if same else 'DIFFERS'}")
        thread.join()
        outcome.minutes = beat.since_first() / 60
        if injector.error is not None:
            raise injector.error
        if server is not None:
            server.whole()
        for folder in folders:
            if server is None:
                outcome.exact += 1
            else:
                outcome.synced += server.sync(folder)
                outcome.exact += exactly_once(server.uri, folder, rounds)
        if server is not None and server.runs() != len(folders):
            outcome.exact = 0
    logging.getLogger("heterofl_ray").removeHandler(heard)
    outcome.rebuilt, outcome.unwritten = heard.rebuilt, heard.unwritten
    _count(outcome, injector.done, beat.times)
    return outcome


def _lap(
    config: ExperimentConfig, data: Path, beat: Beat, outcome: Outcome, disk: Disk
) -> dict[str, Any]:
    """One run to its end. One that found no room for its result is gone on with when there is."""
    try:
        return dict(run(config, data_dir=data, progress=beat).summary)
    except OSError:
        if not disk.mounted:
            raise
    while True:
        with disk.free:
            outcome.resumed += 1
        try:
            return dict(resume(beat.folder, data_dir=data, progress=beat).summary)
        except OSError:
            time.sleep(1)


def _count(outcome: Outcome, faults: Sequence[Fault], times: Sequence[float]) -> None:
    for fault in faults:
        outcome.faults[fault.kind] = outcome.faults.get(fault.kind, 0) + 1
        after = next((moment for moment in times if moment > fault.at), None)
        waited = None if after is None else round(after - fault.at, 2)
        if waited is not None:
            outcome.recovery.append(waited)
        entry = {**asdict(fault), "at": round(fault.at - times[0], 1), "next_round_after": waited}
        outcome.log.append(entry)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="under faults (30)")
    parser.add_argument("--seed", type=int, default=0, help="of the schedule of faults (0)")
    parser.add_argument("--rounds", type=int, default=150, help="of one run (150)")
    parser.add_argument("--faults", default=",".join(KINDS), help=f"({','.join(KINDS)})")
    parser.add_argument(
        "--limit", type=float, help=f"minutes for all of it ({GRACE_MINUTES} more than --minutes)"
    )
    parser.add_argument("--record", action="store_true", help="keep it in benchmarks/results")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    arguments = parser.parse_args(words)
    kinds = [kind for kind in arguments.faults.split(",") if kind]
    for kind in kinds:
        if kind not in KINDS:
            raise ConfigError.unknown("--faults", kind, KINDS)
    if not 0 < arguments.minutes <= LONGEST_MINUTES:
        raise ConfigError.of("--minutes", arguments.minutes, f"above 0, to {LONGEST_MINUTES}")
    if arguments.rounds < 2:
        raise ConfigError.of("--rounds", arguments.rounds, "2 or more")
    limit = arguments.limit or arguments.minutes + GRACE_MINUTES
    if limit <= arguments.minutes:
        raise ConfigError.of("--limit", arguments.limit, "more than --minutes")
    try:
        with time_limit(60 * limit):
            outcome = soak(arguments.minutes, arguments.seed, kinds, arguments.rounds)
    except OutOfTime:
        raise RunFailed(
            f"the soak was not over after {shown(limit)} minutes (--limit); above is what it was at"
        ) from None
    for entry in outcome.log:
        _say(json.dumps(entry))
    _say(
        f"{outcome.minutes:.1f} minutes, {outcome.laps} runs, {outcome.rounds} rounds, "
        f"faults {outcome.faults}, equal bytes {outcome.equal}/{outcome.laps}, metrics exactly "
        f"once {outcome.exact}/{outcome.laps}, a round again after "
        f"{statistics.median(outcome.recovery or [0]):.1f} s (median), "
        f"{max(outcome.recovery, default=0):.1f} s (longest)"
    )
    if arguments.record:
        record(NAME, ABOUT, figures(outcome))
    if arguments.json:
        print(json.dumps(asdict(outcome)), flush=True)
    for line in missed(outcome):
        _say(line)
    return 0 if outcome.holds else 1


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
