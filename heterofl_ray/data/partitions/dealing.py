"""The ways of dealing examples to clients. Each draws from one keyed stream and nothing else.

Only training examples are dealt by the setting ``partition``. A client's test examples follow from
its training part: class by class, in the same proportions, so that a client is tested on what it
trains on, whatever the kind of partition.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.partitions.partition import NOBODY, Integers, Partition, check_enough
from heterofl_ray.data.store import Dataset, Split
from heterofl_ray.errors import ConfigError
from heterofl_ray.randomness import Streams


def deal_train(dataset: Dataset, config: ExperimentConfig, streams: Streams) -> Partition:
    """The training examples, dealt as ``partition`` says; every client holds at least one."""
    kind, argument = config.partition_kind
    labels, classes = dataset.train.labels.numpy(), dataset.info.groups
    check_enough(len(labels), config.clients, "training examples")
    random = streams.numpy("partition")
    match kind:
        case "classes":
            return by_classes(labels, classes, config.clients, int(argument or 0), random)
        case "dirichlet":
            return dirichlet(labels, classes, config.clients, float(argument or 0), random)
        case "natural":
            ids = _client_ids(dataset.train, config)
            return _of_ids(ids, _choose(ids, config.clients, random))
        case _:
            return by_number(len(labels), config, streams)


def deal_test(
    dataset: Dataset, train: Partition, config: ExperimentConfig, streams: Streams
) -> Partition:
    """The test examples, in the proportions of ``train``; by the data's own ids if it has them."""
    if config.partition == "natural" and "client" in dataset.test.columns:
        chosen = _choose(
            _client_ids(dataset.train, config), config.clients, streams.numpy("partition")
        )
        return _of_ids(dataset.test.clients.numpy(), chosen)
    return alike(
        train,
        dataset.train.labels.numpy(),
        dataset.test.labels.numpy(),
        streams.numpy("test-partition"),
    )


def by_number(examples: int, config: ExperimentConfig, streams: Streams) -> Partition:
    """The kinds of partition that look at nothing but how many examples there are."""
    kind, argument = config.partition_kind
    random = streams.numpy("partition")
    if kind == "power-law":
        return power_law(examples, config.clients, float(argument or 0), random)
    return iid(examples, config.clients, random)


def iid(examples: int, clients: int, random: np.random.Generator) -> Partition:
    """Equal random shares; sizes differ by at most one."""
    offsets = np.arange(clients + 1, dtype=np.int64) * examples // clients
    return Partition(offsets, random.permutation(examples))


def power_law(
    examples: int, clients: int, exponent: float, random: np.random.Generator
) -> Partition:
    """Random examples; sizes go with rank^-exponent, and which client has which rank is drawn."""
    ranks = np.arange(1, clients + 1, dtype=np.float64)
    sizes = apportion(ranks**-exponent, examples)
    return Partition.of_sizes(random.permutation(sizes), random.permutation(examples))


def apportion(weights: NDArray[np.float64], total: int) -> Integers:
    """``total`` in whole parts that go with ``weights`` but are never below one.

    Those whose part would be below one get one, the others share the rest; what rounding down
    leaves goes to the largest fractions.
    """
    single = np.zeros(len(weights), dtype=bool)
    while True:
        rest = (total - np.count_nonzero(single)) / weights[~single].sum()
        quotas = np.where(single, 1.0, weights * rest)
        small = quotas < 1 - 1e-9
        if not small.any():
            break
        single |= small
    sizes = np.floor(quotas + 1e-9).astype(np.int64)
    by_fraction = np.argsort(sizes - quotas, kind="stable")
    sizes[by_fraction[: total - sizes.sum()]] += 1
    return sizes


def by_classes(
    labels: Integers, classes: int, clients: int, per_client: int, random: np.random.Generator
) -> Partition:
    """The paper's balanced non-IID: ``per_client`` shards of one class each for every client.

    All classes are cut into (nearly) equally many shards, which are dealt at random. A client may
    get two of one class, so it holds at most ``per_client`` classes.
    """
    setting = f"classes:{per_client}"
    if per_client > classes:
        raise ConfigError.of("partition", setting, f"the data has {classes} classes")
    count = clients * per_client
    if count < classes:
        raise ConfigError.of(
            "partition",
            setting,
            f"clients={clients} would hold {count} of the data's {classes} classes; use more",
        )
    shards = random.permutation(np.arange(count) % classes)
    shards_by_class = np.argsort(shards, kind="stable")
    order, place = _shuffled_by_class(labels, random)
    label = labels[order]
    cuts, sizes = np.bincount(shards, minlength=classes), np.bincount(labels, minlength=classes)
    shard = shards_by_class[_starts(cuts)[label] + place * cuts[label] // sizes[label]]
    owners = np.empty(len(labels), dtype=np.int64)
    owners[order] = shard // per_client
    dealt = Partition.of_owners(owners, clients)
    empty = np.count_nonzero(dealt.sizes() == 0)
    if empty:
        raise ConfigError.of(
            "partition",
            setting,
            f"{empty} of clients={clients} would hold no training example; use fewer clients",
        )
    return dealt


def dirichlet(
    labels: Integers, classes: int, clients: int, alpha: float, random: np.random.Generator
) -> Partition:
    """Each class is spread over the clients in proportions drawn from Dirichlet(alpha).

    A client that would be left without training examples gets one of the largest client's.
    """
    order, _ = _shuffled_by_class(labels, random)
    owners = np.empty(len(labels), dtype=np.int64)
    start = 0
    for size in np.bincount(labels, minlength=classes):
        shares = random.dirichlet(np.full(clients, alpha))
        if not np.isfinite(shares).all():
            raise ConfigError.of("partition", f"dirichlet:{alpha:g}", "too large a number")
        ends = np.rint(np.cumsum(shares) * size).clip(max=size).astype(np.int64)
        ends[-1] = size
        counts = np.diff(ends, prepend=0)
        owners[order[start : start + size]] = np.repeat(np.arange(clients), counts)
        start += size
    return _fill_empty(Partition.of_owners(owners, clients))


def alike(
    train: Partition, train_labels: Integers, test_labels: Integers, random: np.random.Generator
) -> Partition:
    """Test examples of each class, spread over the clients as the class's training examples are.

    Test examples of a class that no client trains on are nobody's.
    """
    classes = 1 + max(int(labels.max(initial=-1)) for labels in (train_labels, test_labels))
    held = train_labels[train.indices]
    holders = np.append(train.holders()[np.argsort(held, kind="stable")], NOBODY)
    trained, tested = (np.bincount(labels, minlength=classes) for labels in (held, test_labels))
    order, place = _shuffled_by_class(test_labels, random)
    label = test_labels[order]
    # the j-th of t test examples stands in the middle of the j-th of t equal stretches
    there = (2 * place + 1) * trained[label] // (2 * tested[label])
    owners = np.empty(len(test_labels), dtype=np.int64)
    owners[order] = np.where(trained[label] > 0, holders[_starts(trained)[label] + there], NOBODY)
    return Partition.of_owners(owners, train.clients)


def _client_ids(split: Split, config: ExperimentConfig) -> Integers:
    if "client" not in split.columns:
        raise ConfigError.of(
            "partition", "natural", f"data={config.data} does not say whose its examples are"
        )
    ids: Integers = split.clients.numpy()
    return ids


def _choose(ids: Integers, clients: int, random: np.random.Generator) -> Integers:
    """The ids that take part, ascending: all of them, or as many as there are to be clients."""
    known = np.unique(ids)
    if clients > len(known):
        raise ConfigError.of(
            "clients",
            clients,
            f"partition=natural: the data has {len(known)} clients of its own; set that or fewer",
        )
    return np.sort(random.choice(known, clients, replace=False))


def _of_ids(ids: Integers, chosen: Integers) -> Partition:
    """Examples by their ids; client i is ``chosen[i]``, and other ids' examples are nobody's."""
    place = np.searchsorted(chosen, ids).clip(max=len(chosen) - 1)
    return Partition.of_owners(np.where(chosen[place] == ids, place, NOBODY), len(chosen))


def _shuffled_by_class(labels: Integers, random: np.random.Generator) -> tuple[Integers, Integers]:
    """Example numbers, class by class, shuffled within each; and each one's place in its class."""
    shuffled = random.permutation(len(labels))
    order = shuffled[np.argsort(labels[shuffled], kind="stable")]
    return order, np.arange(len(labels)) - _starts(np.bincount(labels))[labels[order]]


def _starts(sizes: Integers) -> Integers:
    return np.cumsum(sizes) - sizes


def _fill_empty(partition: Partition) -> Partition:
    """Every client without examples gets one, each time from whoever then has the most.

    Taking from the largest again and again takes the examples that lie deepest in their clients'
    parts, so all can be named at once.
    """
    empty = np.flatnonzero(partition.sizes() == 0)
    if not len(empty):
        return partition
    owners = partition.owners(len(partition.indices))
    depth = np.arange(len(owners)) - np.repeat(partition.offsets[:-1], partition.sizes())
    deepest = np.argsort(-depth, kind="stable")[: len(empty)]
    owners[partition.indices[deepest]] = empty
    return Partition.of_owners(owners, partition.clients)
