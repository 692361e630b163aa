"""A line that says how a run is doing: live in a terminal, one line per test elsewhere."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.simulation import RoundRecord


class Progress(Protocol):
    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def start(self, config: ExperimentConfig, folder: Path, done: int, moved: float) -> None: ...

    def update(self, record: RoundRecord) -> None: ...

    def say(self, text: str) -> None: ...


class Silent:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def start(self, config: ExperimentConfig, folder: Path, done: int, moved: float) -> None:
        return None

    def update(self, record: RoundRecord) -> None:
        return None

    def say(self, text: str) -> None:
        return None


class Shown(Silent):
    """Round, loss, score, megabytes moved and time left, on standard error."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._bar = Bar(
            TextColumn("round"),
            MofNCompleteColumn(),
            BarColumn(bar_width=20),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._megabytes = 0.0
        self._score = ""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def start(self, config: ExperimentConfig, folder: Path, done: int, moved: float) -> None:
        self._largest = config.levels.largest.name
        self._rounds = config.rounds
        self._started = time.perf_counter()
        self._console.print(
            f"{config.method} on {config.data}: {config.model}, mix {config.mix}, "
            f"{config.cohort_size} of {config.clients} clients a round -> {folder}",
            soft_wrap=True,
        )
        self._done_before = done
        self._megabytes = moved
        self._task = self._bar.add_task(
            "starting workers" if config.execution.backend == "ray" else "starting",
            total=config.rounds,
            completed=done,
        )
        self._bar.start()

    def update(self, record: RoundRecord) -> None:
        self._megabytes += 2 * record.megabytes
        tested = record.scores.get(self._largest)
        if tested is not None:
            name, value = next(iter(tested.overall.items()))
            self._score = f"{name} {value:.2f}"
        rejected = [report for report in record.reports if report.rejected is not None]
        for report in rejected:
            self._console.print(
                f"round {record.round_number}: update of client {report.client} at level "
                f"{report.level} left out: {report.rejected}",
                soft_wrap=True,
            )
        text = f"loss {record.loss:.4f}  {self._score}  {self._megabytes:.1f} MB moved"
        self._bar.update(self._task, advance=1, description=text)
        if self._bar.disable and tested is not None:
            elapsed = time.perf_counter() - self._started
            done = record.round_number - self._done_before
            left = elapsed / done * (self._rounds - record.round_number)
            self._console.print(
                f"round {record.round_number}/{self._rounds}  {text}  {left:.0f} s left",
                soft_wrap=True,
            )

    def say(self, text: str) -> None:
        if text:
            self._console.print(text, soft_wrap=True)
