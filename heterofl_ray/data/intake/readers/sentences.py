"""Sentences or pairs of them in tab-separated files, as GLUE has them: train.tsv and dev.tsv.

The header tells which columns count. CoLA has none: its four columns are source, label, star and
sentence. Quotes mean nothing. GLUE's test.tsv has no labels, so a dev.tsv is the test part.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from pathlib import Path

from heterofl_ray.data.intake.archives import staged
from heterofl_ray.data.intake.readers.contract import Options, Sentence, Sentences
from heterofl_ray.data.intake.readers.corpus import read_lines
from heterofl_ray.errors import DataError

logger = logging.getLogger(__name__)

SUFFIXES = (".tsv",)
_PART = re.compile(r"(train|dev|dev_matched|test)\.tsv")
_TESTS = ("dev", "dev_matched", "test")
_FEW = 1000
"""Of so many lines one may be broken and is left out: QQP's published files have such lines."""


@dataclass(frozen=True)
class Task:
    """Which columns count."""

    first: str
    second: str | None
    label: str
    numbers: bool = False
    metric: str = "accuracy"


TASKS = (
    Task("#1 String", "#2 String", "Quality"),  # MRPC
    Task("sentence1", "sentence2", "gold_label"),  # MNLI
    Task("sentence1", "sentence2", "score", numbers=True, metric="pearson"),  # STS-B
    Task("sentence1", "sentence2", "label"),  # RTE, WNLI
    Task("question", "sentence", "label"),  # QNLI
    Task("question1", "question2", "is_duplicate"),  # QQP
    Task("sentence", None, "label"),  # SST-2
    Task("text", None, "label"),
)
COLA = Task("sentence", None, "label", metric="matthews")
_COLA_COLUMNS = ("source", "label", "star", "sentence")


def is_part(base: str) -> bool:
    return _PART.fullmatch(base) is not None


def read(place: Path, options: Options) -> Sentences:
    """One file (and another for testing), or a folder or archive of files named by their part."""
    if place.is_file() and place.suffix in SUFFIXES:
        return _read(place, options.test, options.label)
    with staged(place, is_part) as stage:
        parts = {path.stem: path for path in sorted(stage.iterdir())}
        if "train" not in parts:
            raise DataError(f"{place} has no train.tsv")
        test = next((parts[name] for name in _TESTS if name in parts), None)
        return _read(parts["train"], options.test or test, options.label)


def _read(train: Path, test: Path | None, label: str | None) -> Sentences:
    task, examples = _examples(train, None, label)
    if test is None:
        return Sentences(examples, None, task.numbers, task.metric)
    return Sentences(examples, _examples(test, task, label)[1], task.numbers, task.metric)


def _examples(path: Path, expected: Task | None, label: str | None) -> tuple[Task, list[Sentence]]:
    rows = [line.split("\t") for line in read_lines(path)]
    task = _cola(rows) if label is None else None
    header = list(_COLA_COLUMNS) if task else rows.pop(0)
    task = task or _task(path, header, label)
    if expected is not None and task != expected:
        raise DataError(
            f"{path.name} has no columns {', '.join(_wanted(expected))}, which the training part "
            f"has; its header is {_shown(header)}"
        )
    if not rows:
        raise DataError(f"{path.name} has no examples")
    places = [header.index(name) for name in _wanted(task)]
    broken = [number for number, row in enumerate(rows, 2) if len(row) <= max(places)]
    if len(broken) * _FEW > len(rows):
        raise DataError(
            f"{path.name}: line {broken[0]} has {len(rows[broken[0] - 2])} columns, the header "
            f"{len(header)}"
        )
    if broken:
        logger.warning("%s: %d broken lines are left out", path.name, len(broken))
    *texts, target = places
    return task, [
        Sentence(row[texts[0]], row[texts[1]] if len(texts) > 1 else None, row[target].strip())
        for row in rows
        if len(row) > max(places)
    ]


def _cola(rows: list[list[str]]) -> Task | None:
    alike = all(len(row) == len(_COLA_COLUMNS) and row[1] in ("0", "1") for row in rows)
    return COLA if alike else None


def _task(path: Path, header: list[str], label: str | None) -> Task:
    for task in TASKS:
        if label is not None and (task.first in header and task.second in (None, *header)):
            if label not in header:
                raise DataError(f"{path.name} has no column {label!r}; it has {_shown(header)}")
            return Task(task.first, task.second, label)
        if set(_wanted(task)) <= set(header):
            return task
    known = "; ".join(", ".join(_wanted(task)) for task in TASKS)
    raise DataError(
        f"{path.name} has the columns {_shown(header)}; one of these sets is needed: {known}"
    )


def _wanted(task: Task) -> list[str]:
    return [name for name in (task.first, task.second, task.label) if name is not None]


def _shown(header: list[str]) -> str:
    text = ", ".join(header)
    return text if len(text) <= 120 else text[:117] + "..."
