"""How a run is doing: live in a terminal, one line per test elsewhere."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.text import Text

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.evaluation import Scores, global_scores
from heterofl_ray.simulation import RoundRecord
from heterofl_ray.tracking.history import Row


class Progress(Protocol):
    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def start(self, config: ExperimentConfig, folder: Path, done: int, moved: float) -> None: ...

    def update(self, record: RoundRecord, row: Row) -> None: ...

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

    def update(self, record: RoundRecord, row: Row) -> None:
        return None

    def say(self, text: str) -> None:
        return None


class Shown(Silent):
    """Live in a terminal: a bar, the score and its best, each level's loss, how busy workers are.

    Elsewhere, as in a job's log, a line for each round that was tested.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._bar = Bar(
            TextColumn("round"),
            MofNCompleteColumn(),
            BarColumn(bar_width=20),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
            console=self._console,
        )
        self._detail = Text(style="dim")
        self._live = Live(Group(self._bar, self._detail), console=self._console)
        self._megabytes = 0.0
        self._score = ""
        self._best: tuple[float, str] | None = None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def start(self, config: ExperimentConfig, folder: Path, done: int, moved: float) -> None:
        self._levels = [level.name for level in config.levels.levels]
        self._rounds = config.rounds
        self._started = time.perf_counter()
        models, who = f"{config.model}, mix {config.mix}", "clients"
        if config.participants:
            models, who = ", ".join(config.fedmd.participants), "participants"
        self.say(
            f"{config.method} on {config.data}: {models}, "
            f"{config.cohort_size} of {config.clients} {who} a round -> {folder}"
        )
        self._done_before = done
        self._megabytes = moved
        self._task = self._bar.add_task(
            "starting workers" if config.execution.backend == "ray" else "starting",
            total=config.rounds,
            completed=done,
        )
        if self._console.is_terminal:
            self._live.start()

    def update(self, record: RoundRecord, row: Row) -> None:
        self._megabytes += record.megabytes + record.megabytes_up
        for report in record.reports:
            if report.rejected is not None:
                self.say(
                    f"round {record.round_number}: update of client {report.client} at level "
                    f"{report.level} left out: {report.rejected}"
                )
        tested = global_scores(record.scores, self._levels[0])
        if tested is not None:
            self._score = self._scored(tested)
        text = f"loss {record.loss:.4f}  {self._score}  {self._megabytes:.1f} MB moved"
        detail = self._details(row)
        self._bar.update(self._task, advance=1, description=text)
        self._detail.plain = detail
        if not self._console.is_terminal and tested is not None:
            elapsed = time.perf_counter() - self._started
            done = record.round_number - self._done_before
            left = elapsed / done * (self._rounds - record.round_number)
            self.say(
                f"round {record.round_number}/{self._rounds}  {text}  {detail}  {left:.0f} s left"
            )

    def _scored(self, tested: Scores) -> str:
        """The score, and the best so far where that is another."""
        name, value = next(iter(tested.overall.items()))
        if self._best is None or tested.goodness >= self._best[0]:
            self._best = tested.goodness, f"{value:.2f}"
            return f"{name} {value:.2f}"
        return f"{name} {value:.2f} (best {self._best[1]})"

    def _details(self, row: Row) -> str:
        """Each level's loss where it took part, and the share of time that workers trained.

        With a bound, how many updates were longer; with privacy, what the rounds cost so far.
        """
        losses = {level: row.get(f"loss_{level}") for level in self._levels}
        parts = [f"{level} {loss:.3f}" for level, loss in losses.items() if loss is not None]
        busy = row.get("worker_utilisation")
        shown = "by level: " + "  ".join(parts)
        if row.get("bounded"):
            shown += f"  {row['bounded']} bounded"
        if row.get("epsilon") is not None:
            shown += f"  epsilon {row['epsilon']:.3g}"
        return shown + (f"  workers {busy:.0%} busy" if busy else "")

    def say(self, text: str) -> None:
        if text:
            self._console.print(text, soft_wrap=True)
