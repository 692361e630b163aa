"""What a partition looks like in figures: how many examples and classes clients hold, how skewed.

Counts are kept only for the classes a client holds, so a million clients are no more than their
examples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heterofl_ray.data.partitions.partition import Integers, Partition


@dataclass(frozen=True)
class Spread:
    low: int
    median: float
    high: int

    @classmethod
    def of(cls, values: Integers) -> Spread:
        return cls(int(values.min()), float(np.median(values)), int(values.max()))

    def to_dict(self) -> dict[str, float]:
        return {"min": self.low, "median": self.median, "max": self.high}


@dataclass(frozen=True, eq=False)
class Counts:
    """How many examples of a class a client holds, for each class that it holds any of."""

    clients: Integers
    labels: Integers
    examples: Integers

    @classmethod
    def of(cls, partition: Partition, labels: Integers, classes: int) -> Counts:
        held = partition.holders() * classes + labels[partition.indices]
        pairs, examples = np.unique(held, return_counts=True)
        return cls(pairs // classes, pairs % classes, examples)

    def classes_per_client(self, clients: int) -> Integers:
        return np.bincount(self.clients, minlength=clients)


def label_skew(counts: Counts, sizes: Integers) -> float:
    """Mean over clients of the total variation distance between their labels and everyone's.

    0: every client's classes are mixed as in the whole; towards 1: each holds what few others do.
    """
    everyone = np.bincount(counts.labels, weights=counts.examples) / counts.examples.sum()
    # a distance is the sum of what is too much, and only classes that are held can be too much
    too_much = counts.examples / sizes[counts.clients] - everyone[counts.labels]
    return float(too_much.clip(min=0).sum() / np.count_nonzero(sizes))
