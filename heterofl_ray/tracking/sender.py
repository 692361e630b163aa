"""``python -m heterofl_ray.tracking.sender RUN_DIR``: sends a run's journal to MLflow.

A process of low priority that follows the journal until the run has ended and everything is sent.
While the server is away it tries again, ever less often; once the driver is gone too it soon gives
up, and ``heterofl-ray track sync`` sends the rest.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from heterofl_ray.errors import DataError
from heterofl_ray.tracking import events, journal
from heterofl_ray.tracking.destination import full_uri, without_password
from heterofl_ray.tracking.journal import Entry, Event, Sent

if TYPE_CHECKING:
    from heterofl_ray.tracking.mlflow_store import MlflowRun

logger = logging.getLogger(__name__)

POLL = 0.5
LONGEST_PAUSE = 20.0
PATIENCE = 10.0
"""Seconds without success after which the sender of a run that has ended gives up."""
NICENESS = 10
_TOGETHER = 50
"""Rounds sent with one request, at most."""
_ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # it is this module that tries again
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "GIT_PYTHON_REFRESH": "quiet",
}


class Sender:
    """Sends one run's journal; whoever makes it holds the run's sender lock."""

    def __init__(self, folder: Path, uri: str = "") -> None:
        self.folder = folder
        self.sent = dataclasses.replace(Sent.read(folder), problem="")
        self._uri = uri
        self._path = journal.journal_path(folder)
        self._run: MlflowRun | None = None
        first = journal.read(self._path)[:1]
        if not first or first[0].event.get("kind") != "start":
            raise DataError(f"{self._path}: there is no journal of a run")
        self._start = first[0].event

    def send(self) -> bool:
        """Send what is there; False, with the reason in ``sent.problem``, if that failed."""
        try:
            entries = journal.read(self._path, self.sent.offset)
            if entries:
                _flush(self._path)
            for group in groups(entries):
                self._send_group([entry.event for entry in group])
                self._note(offset=group[-1].end, problem="")
        except Exception as error:
            logger.exception("not sent")
            self._failed(error)
            return False
        return True

    def end(self, status: str) -> bool:
        """Say how the run ended, for one that could not say it itself."""
        try:
            self._connected().end(status, journal.last(self._path)["time"])
        except Exception as error:
            logger.exception("not sent")
            self._failed(error)
            return False
        return True

    def _failed(self, error: Exception) -> None:
        self._run = None  # connect anew
        problem = _reason(error, without_password(self._address()))
        self._note(problem=problem, failures=self.sent.failures + 1)

    def _address(self) -> str:
        return self._uri or full_uri(self._start["uri"], self.folder)

    def _send_group(self, group: Sequence[Event]) -> None:
        from mlflow.exceptions import MlflowException

        run = self._connected()
        try:
            if not self._tell(run, group[0]):
                _tell(run, group)
        except MlflowException as error:
            if error.error_code != "INVALID_PARAMETER_VALUE":
                raise
            if len(group) > 1:  # the others are not to blame
                for event in group:
                    self._send_group([event])
                return
            logger.exception("refused: %s", group[0].get("kind"))
            self._note(refused=self.sent.refused + 1)

    def _tell(self, run: MlflowRun, event: Event) -> bool:
        """Events of a kind of its own; whether it was one."""
        return False

    def _connected(self) -> MlflowRun:
        if self._run is None:
            from heterofl_ray.tracking.mlflow_store import MlflowRun

            self._run = MlflowRun(self._address(), self.folder, self._start)
            self._note(run_id=self._run.run_id, place=self._run.place)
        return self._run

    def _note(self, **changes: str | int) -> None:
        self.sent = dataclasses.replace(self.sent, **changes)  # type: ignore[arg-type]
        with suppress(OSError):  # a full disk: what is sent again counts once
            self.sent.write(self.folder)


def _flush(path: Path) -> None:
    """What is sent must not get lost here: told again, it would come with another time."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _tell(run: MlflowRun, group: Sequence[Event]) -> None:
    match group[0].get("kind"):
        case "start":
            run.start(group[0])
        case "metrics" | "system":
            run.metrics(group)
        case "resumed":
            run.resumed(group[0])
        case "files":
            from heterofl_ray.tracking.files import log_files

            log_files(run)
        case "end":
            run.end(group[0]["status"], group[0]["time"])
        case unknown:
            logger.warning("a damaged event is left out: %s", unknown)


def groups(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Metrics that follow each other go together; anything else goes alone."""
    group: list[Entry] = []
    for entry in entries:
        together = entry.event.get("kind") in ("metrics", "system")
        if group and (not together or len(group) == _TOGETHER):
            yield group
            group = []
        if together:
            group.append(entry)
        else:
            yield [entry]
    if group:
        yield group


def follow(sender: Sender) -> None:
    """Send until the run has ended and all is sent, or nothing can be sent any more."""
    pause, since = POLL, time.monotonic()
    while True:
        # Both are asked first: what the driver says last must be seen by the send that follows.
        left = not journal.is_held(sender.folder, journal.DRIVER)
        ended = has_ended(sender.folder)
        if sender.send():
            pause, since = POLL, time.monotonic()
            if ended or (left and sender.end(events.KILLED)):
                return
        elif (left or ended) and time.monotonic() - since > PATIENCE:
            return
        else:
            pause = min(2 * pause, LONGEST_PAUSE)
        _rest(sender.folder, pause)


def _rest(folder: Path, seconds: float) -> None:
    """Sleep; less when the run ends meanwhile, since then somebody waits."""
    until, ended = time.monotonic() + seconds, has_ended(folder)
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, POLL))
        if not ended and has_ended(folder):
            return


def has_ended(folder: Path) -> bool:
    """Whether the last thing the journal says is how the run ended."""
    return journal.last(journal.journal_path(folder)).get("kind") == "end"


def unsent(folder: Path) -> int:
    """Events that MLflow does not have yet."""
    return len(journal.read(journal.journal_path(folder), Sent.read(folder).offset))


def prepare() -> None:
    """Short timeouts and no chatter; must come before MLflow is imported."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def _reason(error: Exception, address: str) -> str:
    """One line, also for a server that is not there, about which libraries write a page."""
    from mlflow.exceptions import MlflowException
    from requests import RequestException

    if isinstance(error, MlflowException) and error.error_code == "UNAUTHENTICATED":
        names = "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
        return f"{address} asks for another name and password than {names} give"
    behind: BaseException | None = error
    while behind is not None:
        if isinstance(behind, RequestException):
            return f"{address} does not answer"
        behind = behind.__cause__ or behind.__context__
    lines = str(error).strip().splitlines()
    return f"{address}: {lines[0][:200] if lines else type(error).__name__}"


def main(folder: Path) -> int:
    os.nice(NICENESS)
    prepare()
    logging.basicConfig(format="%(asctime)s %(message)s")
    while True:
        with journal.held(folder, journal.SENDER) as mine:
            if mine:
                from heterofl_ray.tracking.sweep_sender import sender_of

                follow(sender_of(folder))
                return 0
        time.sleep(POLL)  # one of before the run was resumed is still at it


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
