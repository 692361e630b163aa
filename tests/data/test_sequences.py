"""Clients of sequences: who holds what, what a batch has, and embedded data."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.sequence_draft import IGNORED
from heterofl_ray.data.sequences import SequenceClients
from heterofl_ray.data.sources import load
from heterofl_ray.data.synthetic_sequences import TEST, TRAIN
from heterofl_ray.errors import ConfigError
from heterofl_ray.randomness import Streams

CPU = torch.device("cpu")


def make(data_root: Path, data: str, **settings: object) -> SequenceClients:
    config = ExperimentConfig.from_dict(
        {"data": data, "model": "encoder", "clients": 20, **settings}
    )
    return SequenceClients(load(data, data_root), config, Streams(config.seed))


def test_embedded_data_is_there_and_fits_its_description(data_root: Path) -> None:
    for name, outputs in (("sentences", 2), ("entities", 7)):
        data = make(data_root, name)
        assert (data.dataset.info.train, data.dataset.info.test) == (TRAIN, TEST)
        assert data.outputs == outputs
        assert data.input_shape == (2, *data.dataset.info.shape)
        tokens = data.dataset.train.tokens
        assert int(tokens.max()) == data.dataset.info.vocabulary - 1


def test_opinions_follow_from_their_last_clause(data_root: Path) -> None:
    data = make(data_root, "sentences")
    vocabulary, split = data.dataset.vocabulary(), data.dataset.test
    good = {"good", "great", "lovely", "brilliant", "charming", "superb", "pleasant", "fine"}
    for row in range(100):
        words = [vocabulary[n] for n in split.tokens[row, : split.columns["length"][row]].tolist()]
        clause = words[: words.index("but") - 1 : -1] if "but" in words else words[::-1]
        positive = (clause[2] in good) != ("not" in clause)
        assert data.dataset.info.classes[split.labels[row]] == (
            "positive" if positive else "negative"
        )


@pytest.mark.parametrize("partition", ["iid", "classes:2", "dirichlet:0.3", "power-law:1.5"])
@pytest.mark.parametrize("name", ["sentences", "entities"])
def test_every_example_has_one_owner(name: str, partition: str, data_root: Path) -> None:
    data = make(data_root, name, partition=partition)
    held = torch.cat([torch.from_numpy(data.train[client].copy()) for client in range(20)])
    assert held.sort().values.tolist() == list(range(TRAIN))
    assert sum(data.examples(client) for client in range(20)) == TRAIN
    assert (data.test_owners(0, TEST) >= 0).all()


def test_clients_of_few_kinds_of_sentences_hold_few_tags(data_root: Path) -> None:
    """Four kinds: no entity, or the kind of the first one; a sentence may have others after it."""
    data = make(data_root, "entities", partition="classes:1")
    groups = [set(data.dataset.train.labels[data.train[c].copy()].tolist()) for c in range(20)]
    assert all(len(group) == 1 for group in groups)
    none = groups.index({0})
    assert data.labels(none).tolist() == [0]
    assert IGNORED not in data.labels(0).tolist()


@pytest.mark.parametrize("name", ["sentences", "entities"])
def test_a_pass_shows_every_example_once(name: str, data_root: Path) -> None:
    data = make(data_root, name, clients=17)
    random = torch.Generator().manual_seed(0)
    batches = list(data.training_batches(3, 10, random, CPU))
    assert sum(len(inputs) for inputs, _ in batches) == data.examples(3)
    split, mine = data.dataset.train, data.train[3].copy()
    lengths = split.columns["length"][mine]
    tokens = sum(int((inputs[:, 1] > 0).sum()) for inputs, _ in batches)
    assert tokens == int(lengths.sum())
    for inputs, targets in batches:
        assert inputs.dtype == torch.int64
        assert int((inputs[:, 1] > 0).sum(1).max()) == inputs.shape[2]  # no longer than needed
        assert targets.shape == (
            inputs[:, 0].shape if name == "entities" else inputs[:, 0, 0].shape
        )
        assert targets.dtype == torch.int64
    again = list(data.training_batches(3, 10, torch.Generator().manual_seed(0), CPU))
    assert all(torch.equal(a[0], b[0]) for a, b in zip(batches, again, strict=True))


def test_test_batches_are_in_order_and_of_full_length(data_root: Path) -> None:
    data = make(data_root, "sentences")
    inputs, targets = zip(*data.test_batches(5, 25, 8, CPU), strict=True)
    assert [len(part) for part in inputs] == [8, 8, 4]
    assert torch.equal(torch.cat(inputs)[:, 0], data.dataset.test.tokens[5:25].long())
    assert torch.equal(torch.cat(targets), data.dataset.test.labels[5:25])


def test_what_sequences_cannot_have(data_root: Path) -> None:
    with pytest.raises(ConfigError, match=r"feature_skew.noise=0.5 .*text has no images"):
        make(data_root, "sentences", feature_skew={"noise": 0.5})
    with pytest.raises(ConfigError, match="does not say whose its examples are"):
        make(data_root, "sentences", partition="natural")
