"""The driver's side of tracking: says what the run does, and has it sent by a process of its own.

Nothing here waits for anybody before the run has ended, and nothing that goes wrong here reaches
the run: at worst it is no longer recorded, with a warning that says why.
"""

from __future__ import annotations

import os
import site
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import heterofl_ray
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.info import DataInfo
from heterofl_ray.errors import DataError, Interrupted
from heterofl_ray.setting_groups import TrackingConfig
from heterofl_ray.tracking import events, journal
from heterofl_ray.tracking.destination import is_on
from heterofl_ray.tracking.folder import TRACKING
from heterofl_ray.tracking.journal import Event, Journal, Sent
from heterofl_ray.tracking.sender import unsent
from heterofl_ray.tracking.system import Sampler

SENDERS = 3
"""How often a sender is started that did not survive."""
SHORT_WAIT = 5.0
"""Seconds to wait for MLflow when the run was stopped or failed."""
_GRACE = 8.0
"""Seconds to wait for a server that does not answer."""

_SILENCE = 2.0
"""Seconds of waiting without saying so."""

Row = Mapping[str, int | float | None]


class Teller:
    """Keeps a journal and has it sent. Used as a context: how it is left says how it ended."""

    def __init__(self, settings: TrackingConfig, folder: Path) -> None:
        self._folder = folder
        self._settings = settings
        self._journal: Journal | None = None
        self._sender: subprocess.Popen[bytes] | None = None
        self._started = 0
        self._is_late = False
        self._locks = ExitStack()
        self._patience = settings.wait

    def _start(self) -> Event:
        """The first event of the journal."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        if is_on(self._settings):
            _take_lock(self._locks, self._folder)
            try:
                self._open()
            except OSError as error:  # such as a full disk
                self._journal = None
                warnings.warn(f"this run is not recorded for MLflow: {error}", stacklevel=2)
        return self

    def _open(self) -> list[Event]:
        """Open the journal; what it says already."""
        self._journal = Journal(self._folder)
        known = [entry.event for entry in journal.read(self._journal.path)]
        if not known:
            self._append(self._start())
        return known

    @property
    def is_on(self) -> bool:
        return self._journal is not None

    def _append(self, event: Event) -> None:
        if self._journal is None:
            return
        try:
            self._journal.append(event)
            self._is_late = False
        except OSError as error:  # such as a full disk: it is kept, and written with the next
            if not self._is_late:
                warnings.warn(f"what MLflow is to know cannot be kept yet: {error}", stacklevel=3)
            self._is_late = True

    # ---- the sender -------------------------------------------------------------------------

    def _have_sender(self) -> None:
        """Start one when there is something to tell, so that the start is not slowed, and when
        one died. A trial has none: its sweep's sends what it says too."""
        running = self._sender is not None and self._sender.poll() is None
        if self._journal is None or self._settings.parent or running or self._started >= SENDERS:
            return
        with suppress(OSError):  # tried again after the next round
            self._sender = start_sender(self._folder)
            self._started += 1

    # ---- the end ----------------------------------------------------------------------------

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        status = events.FINISHED
        if kind is not None:
            stopped = issubclass(kind, (Interrupted, KeyboardInterrupt))
            status = events.KILLED if stopped else events.FAILED
            self._patience = min(self._patience, SHORT_WAIT)
        self._append(events.files())
        self._append(events.end(status))
        self._have_sender()
        self._locks.close()

    def settle(self, say: Callable[[str], None]) -> None:
        """Wait, not for long, until MLflow has everything, and say where it is."""
        if self._journal is None:
            return
        self._journal.close()
        if self._journal.late:
            say(f"{self._journal.late} events for MLflow are lost: {self._folder} takes nothing")
        if self._settings.parent:
            return
        with suppress(KeyboardInterrupt):
            self._wait(say)
        sent, left = Sent.read(self._folder), unsent(self._folder)
        if left:
            why = f" ({sent.problem})" if sent.problem else ""
            say(f"{left} events not sent yet{why}: heterofl-ray track sync {self._folder}")
        else:
            say(f"MLflow: {sent.place}")

    def _wait(self, say: Callable[[str], None]) -> None:
        size = journal.journal_path(self._folder).stat().st_size
        started, before = time.monotonic(), Sent.read(self._folder).failures
        said = False
        while True:
            sent = Sent.read(self._folder)
            waited = time.monotonic() - started
            away = sent.problem and (sent.failures > before + 1 or waited > _GRACE)
            ended = self._sender is None or self._sender.poll() is not None
            if sent.offset >= size or away or ended or waited >= self._patience:
                return
            if waited > _SILENCE and not said:
                said = True
                say(f"sending to MLflow, {self._patience:.0f} s at most (Ctrl-C: do not wait)")
            time.sleep(0.1)


class Recorder(Teller):
    """Of a run: its rounds, and how the machine is doing meanwhile."""

    def __init__(
        self, config: ExperimentConfig, folder: Path, info: DataInfo, data_folder: Path
    ) -> None:
        super().__init__(config.tracking, folder)
        self._of = (config, folder, info, data_folder)
        self._sampler: Sampler | None = None
        self._last_round = 0
        self._samples = 0

    def _start(self) -> Event:
        return events.start(*self._of)

    def _open(self) -> list[Event]:
        known = super()._open()
        self._last_round = max(
            (event["step"] for event in known if event.get("kind") == "metrics"), default=0
        )
        self._samples = sum(event.get("kind") == "system" for event in known)
        self._sampler = Sampler(self._sample)
        self._sampler.start()
        return known

    def resumed(self, rows: Sequence[Row]) -> None:
        """The run goes on after these rounds; those a crash kept from the journal are told now."""
        if rows:
            self._append(events.resumed(len(rows)))
            for row in rows:
                self._tell(row)

    def round_done(self, row: Row) -> None:
        self._tell(row)
        self._have_sender()

    def _tell(self, row: Row) -> None:
        """A round done again after a crash was told before; the first time counts."""
        number = int(row["round"] or 0)
        if number > self._last_round:
            self._last_round = number  # first: a signal in between must not tell it twice
            self._append(events.round_done(row))

    def _sample(self, values: Mapping[str, float]) -> None:
        self._append(events.sample(self._samples, values))
        self._samples += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._sampler is not None:
            self._sampler.stop()
        super().__exit__(kind, error, trace)


def _take_lock(locks: ExitStack, folder: Path) -> None:
    """Be the one driver of this run; a sender may look at the lock for a moment."""
    for _ in range(20):
        attempt = ExitStack()
        if attempt.enter_context(journal.held(folder, journal.DRIVER)):
            locks.push(attempt)
            return
        attempt.close()
        time.sleep(0.05)
    raise DataError(f"{folder}: this run is going on in another process")


def start_sender(folder: Path) -> subprocess.Popen[bytes]:
    """In a session of its own, so that Ctrl-C does not reach it."""
    package = Path(heterofl_ray.__file__).parent.parent
    environment = dict(os.environ)
    if str(package) not in site.getsitepackages():
        paths = [str(package), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    with (folder / TRACKING / "sender.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "heterofl_ray.tracking.sender", str(folder.resolve())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=environment,
        )
