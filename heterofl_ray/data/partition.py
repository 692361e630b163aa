"""Which examples belong to which client.

A partition is two flat arrays, offsets and indices, whatever the number of clients: client i holds
``indices[offsets[i]:offsets[i + 1]]``. The test set is dealt in the same way as the training set,
so that a client is tested on the classes it trains on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heterofl_ray.errors import ConfigError
from heterofl_ray.randomness import Streams

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Partition:
    offsets: Integers
    indices: Integers

    @property
    def clients(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, client: int) -> Integers:
        return self.indices[self.offsets[client] : self.offsets[client + 1]]

    def sizes(self) -> Integers:
        return np.diff(self.offsets)

    def owners(self) -> Integers:
        """The client of each example, by the example's number."""
        owners = np.empty(len(self.indices), dtype=np.int64)
        owners[self.indices] = np.repeat(np.arange(self.clients), self.sizes())
        return owners


def iid(examples: int, clients: int, random: np.random.Generator) -> Partition:
    """Equal random shares; sizes differ by at most one."""
    offsets = np.arange(clients + 1, dtype=np.int64) * examples // clients
    return Partition(offsets, random.permutation(examples).astype(np.int64))


def by_classes(
    train: Integers, test: Integers, classes: int, clients: int, per_client: int, streams: Streams
) -> tuple[Partition, Partition]:
    """The paper's balanced non-IID: ``per_client`` shards of one class each for every client.

    All classes are cut into (nearly) equally many shards, which are dealt at random; the test set
    is cut likewise and dealt to the same clients.
    """
    random = streams.numpy("partition")
    shards = random.permutation(np.arange(clients * per_client) % classes)
    return (
        _deal_shards(train, shards, per_client, random),
        _deal_shards(test, shards, per_client, random),
    )


def dirichlet(
    train: Integers, test: Integers, classes: int, clients: int, alpha: float, streams: Streams
) -> tuple[Partition, Partition]:
    """Each class is spread over the clients in proportions drawn from Dirichlet(alpha).

    A client that would be left without training examples gets one of the largest client's.
    """
    random = streams.numpy("partition")
    shares = random.dirichlet(np.full(clients, alpha), size=classes)
    dealt = [_deal_shares(labels, shares, random) for labels in (train, test)]
    return _fill_empty(dealt[0]), dealt[1]


def _deal_shards(
    labels: Integers, shards: Integers, per_client: int, random: np.random.Generator
) -> Partition:
    """Cut each class into as many parts as it has shards; shard s goes to client s // k."""
    order = _shuffled_by_class(labels, random)
    sizes = np.bincount(labels, minlength=int(shards.max()) + 1)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    owner = np.empty(len(labels), dtype=np.int64)
    for label in range(len(sizes)):
        mine = np.flatnonzero(shards == label)
        if not len(mine):
            continue
        place = np.arange(sizes[label]) * len(mine) // max(1, sizes[label])
        owner[order[starts[label] : starts[label + 1]]] = mine[place] // per_client
    return _by_owner(owner, len(shards) // per_client)


def _deal_shares(
    labels: Integers, shares: NDArray[np.float64], random: np.random.Generator
) -> Partition:
    order = _shuffled_by_class(labels, random)
    owner = np.empty(len(labels), dtype=np.int64)
    start = 0
    for label, size in enumerate(np.bincount(labels, minlength=len(shares))):
        ends = np.round(np.cumsum(shares[label]) * size)
        members = order[start : start + size]
        owner[members] = np.minimum(
            np.searchsorted(ends, np.arange(size), side="right"), shares.shape[1] - 1
        )
        start += size
    return _by_owner(owner, shares.shape[1])


def _shuffled_by_class(labels: Integers, random: np.random.Generator) -> Integers:
    """Example numbers, class by class, shuffled within each class."""
    shuffled = random.permutation(len(labels))
    return shuffled[np.argsort(labels[shuffled], kind="stable")]


def _by_owner(owner: Integers, clients: int) -> Partition:
    sizes = np.bincount(owner, minlength=clients)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Partition(offsets, np.argsort(owner, kind="stable").astype(np.int64))


def _fill_empty(partition: Partition) -> Partition:
    owner = partition.owners()
    sizes = partition.sizes()
    for client in np.flatnonzero(sizes == 0):
        giver = int(np.argmax(sizes))
        owner[np.flatnonzero(owner == giver)[0]] = client
        sizes[giver] -= 1
        sizes[client] += 1
    return _by_owner(owner, partition.clients)


def check_enough(examples: int, clients: int, what: str) -> None:
    if examples < clients:
        raise ConfigError.of("clients", clients, f"the data has {examples} {what} to deal")
