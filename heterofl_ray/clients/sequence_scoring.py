"""Scores of sequences: sums that add up over parts of the test set, and what they come to.

Percents: accuracy, Matthews correlation and, for two classes, F1 of the second (as GLUE has them);
Pearson correlation of numbers; F1, precision and recall of whole entities, of which the kind and
both ends must be right (as seqeval has them: an I-KIND after another kind begins an entity too).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from heterofl_ray.data.info import DataInfo
from heterofl_ray.data.sequence_draft import IGNORED

Sums = tuple[float, ...]
Metrics = dict[str, float]
Span = tuple[str, int, int]


def class_sums(logits: Tensor, targets: Tensor) -> Sums:
    """The confusion matrix, row by row: a row for each true class."""
    classes = logits.shape[-1]
    places = targets * classes + logits.argmax(-1)
    return tuple(torch.bincount(places.flatten(), minlength=classes**2).double().tolist())


def number_sums(values: Tensor, targets: Tensor) -> Sums:
    """How many, and the sums of both, of their squares and of their products."""
    x, y = values.flatten().double(), targets.flatten().double()
    return (float(len(x)), *(float(s.sum()) for s in (x, y, x * x, y * y, x * y)))


def tag_sums(logits: Tensor, targets: Tensor, names: Sequence[str]) -> Sums:
    """Entities that were found rightly, that were found, and that there are."""
    right = found = there = 0
    for guessed, true in zip(logits.argmax(-1), targets, strict=True):
        asked = true != IGNORED
        predicted = spans([names[tag] for tag in guessed[asked].tolist()])
        expected = spans([names[tag] for tag in true[asked].tolist()])
        right += len(predicted & expected)
        found += len(predicted)
        there += len(expected)
    return float(right), float(found), float(there)


def spans(tags: Sequence[str]) -> set[Span]:
    """The entities in a row of tags: kind, first word, word after the last."""
    found: set[Span] = set()
    start, inside = 0, ""
    for place, tag in enumerate([*tags, "O"]):
        mark, _, kind = tag.partition("-")
        if inside and (mark != "I" or kind != inside):
            found.add((inside, start, place))
            inside = ""
        if mark != "O" and not inside:
            start, inside = place, kind
    return found


def sequence_loss(outputs: Tensor, targets: Tensor, target: str) -> float:
    """Summed over all that count."""
    if target == "number":
        return float(F.mse_loss(outputs.flatten(), targets.flatten(), reduction="sum").double())
    flat, truth = outputs.flatten(0, -2), targets.flatten()
    return float(F.cross_entropy(flat, truth, reduction="sum", ignore_index=IGNORED).double())


def sequence_metrics(info: DataInfo, accuracy: float, sums: Sums) -> Metrics:
    """What the sums of a test set come to; the score that the data is compared by comes first."""
    match info.target:
        case "number":
            found = {"pearson": pearson(sums)}
        case "tags":
            right, predicted, there = sums or (0.0, 0.0, 0.0)
            found = {
                "f1": _ratio(2 * right, predicted + there),
                "precision": _ratio(right, predicted),
                "recall": _ratio(right, there),
                "accuracy": accuracy,
            }
        case _:
            classes = math.isqrt(len(sums))
            table = [sums[row * classes : (row + 1) * classes] for row in range(classes)]
            found = {"accuracy": accuracy, "matthews": matthews(table)}
            if classes == 2:
                (_, wrong), (missed, right) = table
                found["f1"] = _ratio(2 * right, 2 * right + wrong + missed)
    return {info.metric: found[info.metric], **found}


def matthews(table: Sequence[Sequence[float]]) -> float:
    """Of any number of classes, in percent; 0 where one side never changes."""
    total = sum(map(sum, table))
    right = sum(row[place] for place, row in enumerate(table))
    true = [sum(row) for row in table]
    guessed = [sum(column) for column in zip(*table, strict=True)]
    together = right * total - sum(t * g for t, g in zip(true, guessed, strict=True))
    spread = (total**2 - sum(t * t for t in true)) * (total**2 - sum(g * g for g in guessed))
    return 100 * together / math.sqrt(spread) if spread else 0.0


def pearson(sums: Sums) -> float:
    """In percent; 0 where one side never changes."""
    count, x, y, xx, yy, xy = sums
    spread = (count * xx - x * x) * (count * yy - y * y)
    return 100 * (count * xy - x * y) / math.sqrt(spread) if spread > 0 else 0.0


def _ratio(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0
