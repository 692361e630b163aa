"""How a round's clients become jobs. Depends on the config and the cohort only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heterofl_ray.clients.jobs import ClientReport
from heterofl_ray.mixes import Level
from heterofl_ray.submodels.selectors import Cut


def group_clients(
    cohort: Sequence[int], cuts: Sequence[Cut], size: int
) -> list[tuple[Cut, tuple[int, ...]]]:
    """Groups of at most ``size`` clients of a cut, largest level first, in order of client."""
    members: dict[Cut, list[int]] = {}
    for client, cut in zip(cohort, cuts, strict=True):
        members.setdefault(cut, []).append(client)
    return [
        (cut, tuple(clients[start : start + size]))
        for cut, clients in sorted(members.items(), key=lambda item: _size(item[0].level))
        for start in range(0, len(clients), size)
    ]


def _size(level: Level) -> tuple[float, int]:
    """Sorts the largest level first."""
    return -level.rate, -level.depth


class CostEstimate:
    """Seconds a job will take, from what each level's examples took so far."""

    def __init__(self) -> None:
        self._per_example: dict[str, float] = {}

    def of(self, level: Level, examples: int) -> float:
        """Before anything is measured, wider counts as longer."""
        return examples * self._per_example.get(level.name, level.rate)

    def learn(self, report: ClientReport) -> None:
        if report.examples:
            new = report.seconds / report.examples
            old = self._per_example.get(report.level, new)
            self._per_example[report.level] = 0.7 * old + 0.3 * new


class InOrder:
    """A round's updates, which are added up in the order of their jobs, whoever is done first.

    What is done before its turn takes memory until then. While more than ``most`` of it waits, no
    job starts but the one whose update is next.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._sizes: dict[int, int] = {}
        self._next = 0
        self._waiting = 0

    def done(self, number: int, size: int) -> None:
        """The job of this number is done, with an update of ``size``."""
        self._sizes[number] = size
        self._waiting += size
        while self._next in self._sizes:
            self._waiting -= self._sizes[self._next]
            self._next += 1

    def lost(self, number: int) -> None:
        """Its update is gone; those behind it wait again until it is made anew."""
        size = self._sizes.pop(number)
        if number < self._next:
            self._waiting += sum(self._sizes[n] for n in range(number + 1, self._next))
            self._next = number
        else:
            self._waiting -= size

    def may_start(self, number: int) -> bool:
        return number == self._next or self._waiting <= self._most


def admits(level: str, beside: Sequence[str], memory: Mapping[str, int], capacity: int) -> bool:
    """Whether a job of ``level`` may start on a GPU on which jobs of ``beside`` are running.

    ``memory`` is the measured peak of each level's jobs. A level that was not measured yet runs
    alone, so that measuring it is safe. ``capacity`` 0 is a CPU, which takes any.
    """
    if not capacity or not beside:
        return True
    if any(name not in memory for name in (level, *beside)):
        return False
    return memory[level] + sum(memory[name] for name in beside) <= 0.9 * capacity


def ranges(total: int, size: int) -> list[tuple[int, int]]:
    """(start, stop) of consecutive parts of at most ``size``."""
    return [(start, min(start + size, total)) for start in range(0, total, size)]
