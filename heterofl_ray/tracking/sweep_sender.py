"""The sender's side of a sweep: trials' journals, their objectives, the front and its models."""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heterofl_ray.reporting.folders import is_sweep
from heterofl_ray.reporting.sweep_records import TRIALS_FILE
from heterofl_ray.tracking import events, journal
from heterofl_ray.tracking.folder import COMPARISON_FILE, REPORT
from heterofl_ray.tracking.journal import Event, Sent
from heterofl_ray.tracking.sender import Sender, has_ended

if TYPE_CHECKING:
    from heterofl_ray.tracking.mlflow_store import MlflowRun

logger = logging.getLogger(__name__)

_FILES = ("sweep.yaml", TRIALS_FILE)
_FOLDERS = ("best", REPORT)


def sender_of(folder: Path, uri: str = "") -> Sender:
    """The sender of a run's journal, or of a sweep's or comparison's and its runs'."""
    if (folder / COMPARISON_FILE).is_file():
        return ComparisonSender(folder, uri)
    return SweepSender(folder, uri) if is_sweep(folder) else Sender(folder, uri)


def trial_runs(sweep: Path) -> Iterator[Path]:
    """Folders of the runs of a sweep's trials, or of a comparison's methods, that are recorded."""
    for within in ("trials", "runs"):
        for path in sorted(sweep.glob(f"{within}/*/*/tracking/journal.jsonl")):
            yield path.parent.parent


class SweepSender(Sender):
    """Sends a sweep's journal and its trials'; a trial's objectives come after its run."""

    def send(self) -> bool:
        sent = super().send() and all(map(self._send_trial, trial_runs(self.folder)))
        return sent and (not has_ended(self.folder) or self._end_trials())

    def _send_trial(self, folder: Path) -> bool:
        if Sent.read(folder).offset >= journal.journal_path(folder).stat().st_size:
            return True
        with journal.held(folder, journal.SENDER) as mine:
            if not mine:  # somebody calls `track sync` on it
                return True
            sender = Sender(folder, self._uri)
            if sender.send():
                return True
        self._note(problem=sender.sent.problem, failures=self.sent.failures + 1)
        return False

    def end(self, status: str) -> bool:
        return self._end_trials() and super().end(status)

    def _end_trials(self) -> bool:
        """Trials that cannot say any more that they ended: they were stopped with the sweep."""
        for folder in trial_runs(self.folder):
            ended = has_ended(folder) or journal.is_held(folder, journal.DRIVER)
            if not ended and not Sender(folder, self._uri).end(events.KILLED):
                return False
        return True

    def _tell(self, run: MlflowRun, event: Event) -> bool:
        match event.get("kind"):
            case "trial":
                self._tell_trial(run, event)
            case "files":
                self._log_files(run)
            case _:
                return False
        return True

    def _tell_trial(self, run: MlflowRun, event: Event) -> None:
        trial = event["trial"]
        step = {"kind": "metrics", "time": event["time"], "values": event["values"]}
        run.metrics([{**step, "step": trial["number"]}])
        folders = self._folders(trial)
        for folder in folders:
            if not self._send_trial(folder):
                raise RuntimeError(f"trial {trial['number']}: {self.sent.problem}")
        if folders and (run_id := Sent.read(folders[0]).run_id):
            run.trial(run_id, trial, event["time"])

    def _folders(self, trial: Event) -> list[Path]:
        """The runs of a trial, its first one first; one that was cut off has not named them."""
        named = [self.folder / name for name in trial["runs"]]
        place = self.folder / "trials" / f"{trial['number']:03d}"
        found = named or sorted(path.parent for path in place.glob("*/config.yaml"))[:1]
        return [folder for folder in found if journal.journal_path(folder).is_file()]

    # ---- the end ----------------------------------------------------------------------------

    def _log_files(self, run: MlflowRun) -> None:
        """The report, the table of trials, job files, and the models of the front."""
        self._report()
        with tempfile.TemporaryDirectory() as scratch:
            for name in _FILES:
                if (self.folder / name).exists():
                    shutil.copyfile(self.folder / name, Path(scratch) / name)
            run.client.log_artifacts(run.run_id, scratch, "sweep")
        for name in _FOLDERS:
            if (self.folder / name).is_dir():
                run.client.log_artifacts(run.run_id, str(self.folder / name), name)
        for folder in self._front():
            self._log_models(folder)

    def _report(self) -> None:
        """Fill the folder of figures; a report that fails is no reason to keep the rest back."""
        from heterofl_ray.reporting.sweeps import write_sweep_report

        try:
            write_sweep_report(self.folder, self.folder / REPORT)
        except Exception:
            logger.exception("there is no report")

    def _front(self) -> list[Path]:
        try:
            records: dict[str, Any] = json.loads((self.folder / TRIALS_FILE).read_text("utf-8"))
        except (OSError, ValueError):
            return []
        best = [t for t in records["trials"] if t["number"] in records["front"]]
        return [folder for trial in best for folder in self._folders(trial)[:1]]

    def _log_models(self, folder: Path) -> None:
        from heterofl_ray.tracking.files import log_models
        from heterofl_ray.tracking.mlflow_store import MlflowRun

        start = journal.read(journal.journal_path(folder))[0].event
        log_models(MlflowRun(self._address(), folder, start))


class ComparisonSender(SweepSender):
    """Sends a comparison's journal and its runs'; at the end its figures, and no models."""

    def _log_files(self, run: MlflowRun) -> None:
        for folder in trial_runs(self.folder):
            if not self._send_trial(folder):
                raise RuntimeError(f"{folder.name}: {self.sent.problem}")
        run.client.log_artifact(run.run_id, str(self.folder / COMPARISON_FILE))
        if (self.folder / REPORT).is_dir():
            run.client.log_artifacts(run.run_id, str(self.folder / REPORT), REPORT)
