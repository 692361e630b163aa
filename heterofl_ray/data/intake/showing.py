"""Progress of long readings and downloads, on standard error, only in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

Item = TypeVar("Item")


class Advance(Protocol):
    """Says how far a download is."""

    def __call__(self, done: int, total: int | None) -> None: ...


def counted(items: Iterable[Item], what: str) -> Iterator[Item]:
    """``items`` as they are, counted in a line whose end nobody knows yet."""
    console = Console(stderr=True, highlight=False)
    columns = (TextColumn(what), BarColumn(bar_width=20), MofNCompleteColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        for item in items:
            yield item
            bar.advance(task)


@contextmanager
def download_bar(what: str) -> Iterator[Advance]:
    """A bar of megabytes."""
    console = Console(stderr=True, highlight=False)
    columns = (TextColumn(what), BarColumn(bar_width=20), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
