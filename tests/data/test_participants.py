"""What FedMD's participants hold in private, what is public, and which output a class has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.participants import CHECK, LEARN, ParticipantImages
from heterofl_ray.data.sources import load
from heterofl_ray.errors import ConfigError

PATTERNS = "synthetic-images:600"


def make(root: Path, *overrides: str) -> ParticipantImages:
    config = ExperimentConfig(clients=5).override(["method=fedmd", *overrides])
    data = Workbench(config, root, torch.device("cpu")).data
    assert isinstance(data, ParticipantImages)
    return data


def counts(labels: torch.Tensor) -> dict[int, int]:
    found, numbers = labels.unique(return_counts=True)
    return dict(zip(found.tolist(), numbers.tolist(), strict=True))


def test_one_data_set_is_split_by_its_classes(data_root: Path) -> None:
    data, whole = make(data_root), load("digits", data_root)
    for client in range(5):
        held = counts(data.dataset.train.labels[torch.from_numpy(data.train[client].copy())])
        assert held == dict.fromkeys(range(5, 10), 3)
    assert len(set(data.train.indices.tolist())) == 5 * 5 * 3, "nobody shares an example"
    truth = whole.test.labels
    assert data.test_size == int((truth >= 5).sum())
    assert torch.equal(data.dataset.test.labels, truth[truth >= 5])
    assert torch.equal(data.dataset.test.images, whole.test.images[truth >= 5])
    public = whole.train.labels[data.public.drawn(1)]
    assert set(public.tolist()) == set(range(5))
    assert data.public.size == int((whole.train.labels < 5).sum())
    assert data.outputs == 10


def test_private_examples_are_the_data_sets_own(data_root: Path) -> None:
    """Their images are those of their labels, though both were counted anew."""
    data, whole = make(data_root, "fedmd.classes=[2, 7]"), load("digits", data_root)
    assert data.outputs == 10
    for split, source in ((data.dataset.train, whole.train), (data.dataset.test, whole.test)):
        wanted = torch.isin(source.labels, torch.tensor([2, 7]))
        assert torch.equal(split.images, source.images[wanted])
        assert torch.equal(split.labels, source.labels[wanted])


def test_the_same_data_set_by_name_is_public_but_for_what_is_private(data_root: Path) -> None:
    data = make(data_root, "fedmd.public=digits", "fedmd.classes=[8, 9]", "fedmd.public_size=9999")
    whole = load("digits", data_root)
    private = whole.train.images[torch.isin(whole.train.labels, torch.tensor([8, 9]))]
    held = private[torch.from_numpy(data.train.indices.copy())]
    public = whole.train.images[data.public.drawn(3)]
    assert data.public.size == len(whole.train.labels) - 5 * 2 * 3
    same = (public.flatten(1).unsqueeze(1) == held.flatten(1)).all(-1)
    assert not same.any()
    assert set(whole.train.labels[data.public.drawn(3)].tolist()) == set(range(10))


def test_another_public_data_set_comes_first_in_the_outputs(data_root: Path) -> None:
    own = "synthetic-images:300"
    data = make(data_root, f"data={own}", f"fedmd.public={PATTERNS}", "fedmd.classes=[4, 1, 6]")
    whole, public = load(own, data_root), load(PATTERNS, data_root)
    count = len(public.info.classes)
    assert data.outputs == count + 3
    truth = whole.train.labels[torch.isin(whole.train.labels, torch.tensor([1, 4, 6]))]
    numbers = {1: count, 4: count + 1, 6: count + 2}
    assert data.dataset.train.labels.tolist() == [numbers[c] for c in truth.tolist()]
    assert data.public.size == 600
    ((_, labels),) = data.public.batches(data.public.drawn(1), 600, torch.device("cpu"))
    assert torch.equal(labels, public.train.labels[data.public.drawn(1)])
    assert data.foreign is not None
    assert data.foreign.folder == public.folder


def test_a_round_draws_its_own_public_examples(data_root: Path) -> None:
    data = make(data_root, "fedmd.public_size=100")
    first, again, second = (data.public.drawn(t) for t in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert len(set(first.tolist())) == 100


def test_a_tenth_is_held_out_unless_nobody_looks_at_it(data_root: Path) -> None:
    data = make(data_root)
    learn, check = data.public.train[LEARN], data.public.train[CHECK]
    assert len(check) == data.public.size // 10
    assert not set(learn.tolist()) & set(check.tolist())
    assert len(learn) + len(check) == data.public.size
    patient = make(data_root, "fedmd.patience=0")
    assert len(patient.public.train[CHECK]) == 0
    assert len(patient.public.train[LEARN]) == data.public.size


def test_together_is_everybodys(data_root: Path) -> None:
    data = make(data_root)
    batches = data.together.training_batches(0, 200, torch.Generator(), torch.device("cpu"))
    ((_, labels),) = batches
    assert counts(labels) == dict.fromkeys(range(5, 10), 15)
    assert len(data.train[0]) == 15, "the participants' own are as they were"


@pytest.mark.parametrize("partition", ["classes:2", "dirichlet:0.5", "power-law:1.5"])
def test_every_partition_is_thinned_out(data_root: Path, partition: str) -> None:
    full = make(data_root, f"partition={partition}", "fedmd.private_per_class=0")
    thin = make(data_root, f"partition={partition}", "fedmd.private_per_class=4")
    for client in range(5):
        labels = full.dataset.train.labels
        before = counts(labels[torch.from_numpy(full.train[client].copy())])
        after = counts(labels[torch.from_numpy(thin.train[client].copy())])
        assert after == {c: min(4, n) for c, n in before.items()}
        assert set(thin.train[client].tolist()) <= set(full.train[client].tolist())


def test_local_tests_follow_what_is_held(data_root: Path) -> None:
    data = make(data_root, "partition=classes:1")
    owners = data.test_owners(0, data.test_size).numpy()
    labels = data.dataset.test.labels.numpy()
    for client in range(5):
        assert set(np.unique(labels[owners == client])) <= set(data.labels(client).tolist())


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        (["fedmd.classes=[3, 10]"], "fedmd.classes.*digits has classes 0 to 9"),
        ([f"fedmd.public={PATTERNS}"], "fedmd.public.*images of 1x28x28, but data=digits is 1x8x8"),
        (["fedmd.classes=[0,1,2,3,4,5,6,7,8,9]"], "fedmd.public.*no example .* is left"),
        (["partition=natural"], "partition='natural'.*does not say whose"),
    ],
)
def test_what_does_not_fit_is_refused(data_root: Path, overrides: list[str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        make(data_root, *overrides)
