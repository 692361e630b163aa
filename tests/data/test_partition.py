"""Dealing examples to clients: true partitions, hand-worked sizes, the test part alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heterofl_ray import run
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.info import DataInfo
from heterofl_ray.data.partitions import dealing
from heterofl_ray.data.partitions.partition import NOBODY, Integers, Partition
from heterofl_ray.data.partitions.statistics import Counts, label_skew
from heterofl_ray.data.store import Columns, Dataset, Draft, write_dataset
from heterofl_ray.errors import ConfigError
from heterofl_ray.randomness import Streams


def random(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def classes_of(partition: Partition, labels: Integers) -> list[set[int]]:
    return [set(labels[partition[client]].tolist()) for client in range(partition.clients)]


def assert_deals_each_once(partition: Partition, examples: int, clients: int) -> None:
    assert partition.clients == clients
    assert partition.offsets.dtype == partition.indices.dtype == np.int64
    assert sorted(partition.indices.tolist()) == list(range(examples))
    assert partition.sizes().min() >= 1


def dataset(
    root: Path, train: Integers, test: Integers, owners: tuple[Integers, Integers] | None = None
) -> Dataset:
    splits: dict[str, Columns] = {}
    for place, (name, labels) in enumerate((("train", train), ("test", test))):
        columns = {"image": np.zeros((len(labels), 1, 2, 2), np.uint8), "label": labels}
        splits[name] = columns | ({"client": owners[place]} if owners else {})
    info = DataInfo(
        name="made",
        kind="images",
        train=len(train),
        test=len(test),
        shape=(1, 2, 2),
        classes=tuple("0123456789"),
        mean=(0.0,),
        std=(1.0,),
        clients=len(np.unique(owners[0])) if owners else 0,
    )
    return write_dataset(root, Draft(info, splits))


@given(
    examples=st.integers(1, 200),
    share=st.floats(0, 1),
    classes=st.integers(1, 12),
    alpha=st.sampled_from([0.01, 0.1, 0.5, 1.0, 10.0, 1000.0]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=150, deadline=None)
def test_every_example_is_dealt_once_and_nobody_is_empty(
    examples: int, share: float, classes: int, alpha: float, seed: int
) -> None:
    clients = max(1, round(share * examples))
    labels = random(seed).integers(0, classes, examples)
    for dealt in (
        dealing.iid(examples, clients, random(seed)),
        dealing.power_law(examples, clients, alpha, random(seed)),
        dealing.dirichlet(labels, classes, clients, alpha, random(seed)),
    ):
        assert_deals_each_once(dealt, examples, clients)


@given(
    classes=st.integers(1, 12),
    clients=st.integers(1, 40),
    per_client=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
@settings(max_examples=150, deadline=None)
def test_shards_give_few_classes_and_equal_counts(
    classes: int, clients: int, per_client: int, seed: int
) -> None:
    per_client = min(per_client, classes)
    if clients * per_client < classes:
        return
    shards = -(-clients * per_client // classes)
    labels = random(seed).permutation(np.repeat(np.arange(classes), 6 * shards))
    dealt = dealing.by_classes(labels, classes, clients, per_client, random(seed))
    assert_deals_each_once(dealt, len(labels), clients)
    assert max(map(len, classes_of(dealt, labels))) <= per_client
    if clients * per_client % classes == 0:  # every class is cut into as many shards
        assert set(dealt.sizes().tolist()) == {6 * per_client}


def test_iid_sizes_differ_by_at_most_one() -> None:
    assert dealing.iid(10, 4, random()).sizes().tolist() == [2, 3, 2, 3]


@pytest.mark.parametrize(
    ("total", "exponent", "sizes"),
    [
        # quotas 4.8, 2.4, 1.6, 1.2: the two left over go to the fractions .8 and .6
        (10, 1, [5, 2, 2, 1]),
        # quotas 14.05, 3.51, 1.56, 0.88: the last gets one, the others share 19 as 13.96, 3.49 and
        # 1.55; the two left over go to the fractions .96 and .55
        (20, 2, [14, 3, 2, 1]),
        # all but the first would be far below one
        (7, 20, [4, 1, 1, 1]),
        (4, 1.5, [1, 1, 1, 1]),
    ],
)
def test_power_law_sizes_by_hand(total: int, exponent: float, sizes: list[int]) -> None:
    ranks = np.arange(1.0, 5.0)
    assert dealing.apportion(ranks**-exponent, total).tolist() == sizes
    dealt = dealing.power_law(total, 4, exponent, random())
    assert sorted(dealt.sizes().tolist(), reverse=True) == sizes


def test_dirichlet_takes_from_the_largest_to_fill_the_empty() -> None:
    sizes = np.array([5, 0, 3, 0, 0])
    filled = dealing._fill_empty(Partition.of_sizes(sizes, np.arange(8)))
    # client 0 gives its last, then its last again, and once more: a tie goes to the first
    assert [filled[client].tolist() for client in range(5)] == [[0, 1], [4], [5, 6, 7], [3], [2]]
    assert_deals_each_once(filled, 8, 5)


def test_small_alpha_is_more_skewed_than_large() -> None:
    labels = np.arange(2000) % 10

    def skew(alpha: float) -> float:
        dealt = dealing.dirichlet(labels, 10, 20, alpha, random())
        return label_skew(Counts.of(dealt, labels, 10), dealt.sizes())

    assert skew(0.1) > 0.6 > 0.5 > skew(1.0) > skew(100.0)
    assert skew(100.0) < 0.1


def test_label_skew_by_hand() -> None:
    labels = np.array([0, 0, 1, 1])
    apart = Partition.of_sizes(np.array([2, 2]), np.array([0, 1, 2, 3]))
    mixed = Partition.of_sizes(np.array([2, 2]), np.array([0, 2, 1, 3]))
    counts = Counts.of(apart, labels, 2)
    assert counts.classes_per_client(2).tolist() == [1, 1]
    assert label_skew(counts, apart.sizes()) == 0.5
    assert label_skew(Counts.of(mixed, labels, 2), mixed.sizes()) == 0


def test_owners_say_who_holds_each_example() -> None:
    dealt = Partition.of_owners(np.array([1, NOBODY, 0, 1]), 3)
    assert [dealt[client].tolist() for client in range(3)] == [[2], [0, 3], []]
    assert dealt.owners(4).tolist() == [1, NOBODY, 0, 1]


@pytest.mark.parametrize("kind", ["iid", "classes:2", "dirichlet:0.3", "power-law:1"])
def test_test_part_has_the_training_part_s_classes_in_its_proportions(
    kind: str, tmp_path: Path
) -> None:
    train, test = np.arange(4000) % 10, np.arange(2000) % 10
    data = dataset(tmp_path, train, test)
    config = ExperimentConfig(data="made", partition=kind, clients=20)
    dealt = dealing.deal_train(data, config, Streams(0))
    tested = dealing.deal_test(data, dealt, config, Streams(0))
    assert sorted(tested.indices.tolist()) == list(range(2000))
    for client in range(20):
        held = np.bincount(train[dealt[client]], minlength=10)
        own = np.bincount(test[tested[client]], minlength=10)
        # half as many test examples as training ones, of each class, up to rounding
        assert np.abs(own - held / 2).max() <= 1
        assert not own[held == 0].any()


def test_test_examples_of_a_class_without_training_examples_are_nobody_s() -> None:
    train = Partition.of_sizes(np.array([1, 2]), np.array([0, 1, 2]))
    tested = dealing.alike(train, np.array([0, 0, 0]), np.array([0, 1, 0, 0]), random())
    assert tested.owners(4)[1] == NOBODY
    assert tested.sizes().tolist() == [1, 2]


OWNERS = np.array([7, 3, 7, 9, 3, 3])


def test_natural_goes_by_the_data_s_own_ids(tmp_path: Path) -> None:
    labels = np.zeros(6, np.int64)
    data = dataset(tmp_path, labels, labels[:4], (OWNERS, np.array([9, 5, 3, 9])))
    config = ExperimentConfig(data="made", partition="natural", clients=3)
    train = dealing.deal_train(data, config, Streams(0))
    test = dealing.deal_test(data, train, config, Streams(0))
    assert [train[client].tolist() for client in range(3)] == [[1, 4, 5], [0, 2], [3]]
    assert [test[client].tolist() for client in range(3)] == [[2], [], [0, 3]]
    assert test.owners(4).tolist() == [2, NOBODY, 0, 2]  # client 5 does not train


def test_natural_with_fewer_clients_takes_some_of_the_ids(tmp_path: Path) -> None:
    labels = np.zeros(6, np.int64)
    data = dataset(tmp_path, labels, labels, (OWNERS, OWNERS))
    config = ExperimentConfig(data="made", partition="natural", clients=2)
    seen = set()
    for seed in range(20):
        train = dealing.deal_train(data, config, Streams(seed))
        test = dealing.deal_test(data, train, config, Streams(seed))
        ids = [set(OWNERS[train[client]].tolist()) for client in range(2)]
        assert all(len(own) == 1 for own in ids)
        assert train.indices.tolist() == test.indices.tolist()
        seen.add(frozenset.union(*map(frozenset, ids)))
    assert seen == {frozenset(pair) for pair in ((3, 7), (3, 9), (7, 9))}


@pytest.mark.parametrize(
    ("partition", "clients", "message"),
    [
        ("iid", 41, "clients=41 is not valid: the data has 40 training examples"),
        ("natural", 2, "partition='natural' is not valid: data=made does not say whose"),
        ("classes:11", 4, "partition='classes:11' is not valid: the data has 10 classes"),
        ("classes:2", 4, "would hold 8 of the data's 10 classes"),
        ("classes:4", 40, "would hold no training example"),
    ],
)
def test_what_cannot_be_dealt_is_refused(
    partition: str, clients: int, message: str, tmp_path: Path
) -> None:
    labels = np.repeat(np.arange(10), [31, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    config = ExperimentConfig(data="made", partition=partition, clients=clients)
    with pytest.raises(ConfigError, match=message):
        dealing.deal_train(dataset(tmp_path, labels, labels), config, Streams(0))


def test_natural_with_more_clients_than_the_data_has_is_refused(tmp_path: Path) -> None:
    labels = np.zeros(6, np.int64)
    data = dataset(tmp_path, labels, labels, (OWNERS, OWNERS))
    config = ExperimentConfig(data="made", partition="natural", clients=4)
    with pytest.raises(ConfigError, match=r"clients=4 .* the data has 3 clients of its own"):
        dealing.deal_train(data, config, Streams(0))


KINDS: dict[str, Callable[[np.random.Generator], Partition]] = {
    "iid": lambda draws: dealing.iid(60, 7, draws),
    "power-law": lambda draws: dealing.power_law(60, 7, 1.0, draws),
    "classes": lambda draws: dealing.by_classes(np.arange(60) % 5, 5, 6, 2, draws),
    "dirichlet": lambda draws: dealing.dirichlet(np.arange(60) % 5, 5, 7, 0.5, draws),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_decides(kind: str) -> None:
    one, again, other = (KINDS[kind](Streams(seed).numpy("partition")) for seed in (1, 1, 2))
    assert np.array_equal(one.indices, again.indices)
    assert np.array_equal(one.offsets, again.offsets)
    assert not np.array_equal(one.indices, other.indices)


def test_a_million_clients_are_dealt_in_seconds() -> None:
    clients = 1_000_000
    labels = np.arange(2 * clients) % 10
    dealt = dealing.by_classes(labels, 10, clients, 2, random())
    assert set(dealt.sizes().tolist()) == {2}
    assert dealing.power_law(2 * clients, clients, 1.0, random()).sizes().min() == 1


def test_test_examples_of_strangers_count_for_the_global_score_only(tmp_path: Path) -> None:
    train, test = np.arange(40) % 10, np.arange(10)
    owners = np.arange(40) // 10
    config = ExperimentConfig(data="made", partition="natural", clients=4).override(
        ["model=mlp", "network.hidden=[4]", "rounds=1", "local_epochs=1", "evaluation.levels=never"]
    )
    for owner, scored in ((3, True), (4, False)):
        dataset(tmp_path, train, test, (owners, np.full(10, owner)))
        summary = run(config, data_dir=tmp_path).summary
        assert summary["global"]["loss"] > 0
        assert ("loss" in summary["local"]) == scored
