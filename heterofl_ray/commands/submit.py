"""``heterofl-ray submit``: hand a job file to Ray's job server and follow it."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TextIO

from heterofl_ray.errors import ConfigError, DataError

NAME = "submit"
ABOUT = "submit a job file to Ray, follow its log, give its exit code"

# Lines of Ray's own around a job's log.
RAY_LINES = ("Running entrypoint for job", "INFO job_manager.py")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB.py", help="a Python file below this folder")
    parser.add_argument(
        "--address",
        help="of Ray's dashboard, such as http://HOST:8265; unset: the Ray that runs here, else "
        "one for this job; local: one for this job",
    )
    parser.add_argument(
        "--json", action="store_true", help="have the job print JSON, and nothing else"
    )
    parser.usage = "%(prog)s [--address ADDRESS] [--json] JOB.py [-- what the job is called with]"


def execute(arguments: argparse.Namespace) -> int:
    here = Path.cwd()
    job = _inside(Path(arguments.job), here)
    words = [*arguments.rest, *(["--json"] if arguments.json else [])]
    shown = _Log(as_json="--json" in words)
    with _stoppable():
        from heterofl_ray.execution import job_submission as jobs

        address = arguments.address
        server = None if address == "local" else jobs.running_server(address)
        with contextlib.ExitStack() as held:
            if server is None:
                print("starting Ray for this job", file=sys.stderr, flush=True)
                server = held.enter_context(jobs.local_ray())
            print(f"submitting {job} to Ray at {server.url}", file=sys.stderr, flush=True)
            environment = _environment(here) if server.on_this_machine else {}
            entrypoint = shlex.join(["python", str(job), *words])
            code = jobs.run_job(server, entrypoint, here, environment, shown)
    shown.finish()
    return code


def _inside(job: Path, here: Path) -> Path:
    """The job's path as it is in the uploaded copy of this folder."""
    if not job.is_file():
        raise DataError(f"{job}: no such job file")
    try:
        return job.resolve().relative_to(here.resolve())
    except ValueError:
        raise ConfigError.of(
            "JOB.py", str(job), f"must lie below {here}, which is what is uploaded"
        ) from None


def _environment(here: Path) -> dict[str, str]:
    """What a job on this machine must know to put runs, and find data, where we would."""
    found = {"HETEROFL_BASE_DIR": str(here)}
    if "HETEROFL_DATA_DIR" in os.environ:
        found["HETEROFL_DATA_DIR"] = str(Path(os.environ["HETEROFL_DATA_DIR"]).absolute())
    return found


class _Log:
    """The job's log as it comes; with JSON, all but its last line goes to standard error."""

    def __init__(self, as_json: bool) -> None:
        self._stream: TextIO = sys.stderr if as_json else sys.stdout
        self._as_json = as_json
        self._result: str | None = None

    def __call__(self, line: str) -> None:
        if any(words in line for words in RAY_LINES):
            return
        if self._as_json and line.startswith("{"):
            self._result = line
        else:
            print(line, file=self._stream, flush=True)

    def finish(self) -> None:
        if self._result is not None:
            print(self._result, flush=True)


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """Ctrl-C and SIGTERM end the job and the Ray started for it, once; not that ending itself."""

    def stop(number: int, frame: FrameType | None) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        print("stopping the job …", file=sys.stderr, flush=True)
        raise KeyboardInterrupt

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
