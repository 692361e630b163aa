"""Which examples belong to which client.

A partition is two flat arrays, offsets and indices, whatever the number of clients: client i holds
``indices[offsets[i]:offsets[i + 1]]``. Nothing is kept per client beyond its offset, so a million
clients cost 8 bytes each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heterofl_ray.errors import ConfigError

Integers = NDArray[np.int64]

NOBODY = -1
"""The owner of an example that no client holds."""


@dataclass(frozen=True, eq=False)
class Partition:
    offsets: Integers
    indices: Integers

    @classmethod
    def of_sizes(cls, sizes: Integers, indices: Integers) -> Partition:
        """``indices`` cut into parts of these sizes, one for each client."""
        offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
        np.cumsum(sizes, out=offsets[1:])
        return cls(offsets, np.asarray(indices, dtype=np.int64))

    @classmethod
    def of_owners(cls, owners: Integers, clients: int) -> Partition:
        """The partition in which example i belongs to client ``owners[i]``, or to nobody."""
        held = owners != NOBODY
        sizes = np.bincount(owners[held], minlength=clients)
        order = np.argsort(owners, kind="stable")
        return cls.of_sizes(sizes, order if held.all() else order[held[order]])

    @property
    def clients(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, client: int) -> Integers:
        return self.indices[self.offsets[client] : self.offsets[client + 1]]

    def sizes(self) -> Integers:
        return np.diff(self.offsets)

    def holders(self) -> Integers:
        """The client of each entry of ``indices``."""
        return np.repeat(np.arange(self.clients), self.sizes())

    def owners(self, examples: int) -> Integers:
        """The client of each of ``examples`` examples, by the example's number."""
        owners = np.full(examples, NOBODY, dtype=np.int64)
        owners[self.indices] = self.holders()
        return owners


def check_enough(examples: int, clients: int, what: str) -> None:
    if examples < clients:
        raise ConfigError.of("clients", clients, f"the data has {examples} {what} to deal")
