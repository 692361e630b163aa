"""Scores of sequences against hand-worked examples and scikit-learn, and how they add up."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as oracle

from heterofl_ray.clients.scoring import Score, score_sequences
from heterofl_ray.clients.sequence_scoring import spans
from heterofl_ray.data.info import DataInfo
from heterofl_ray.data.sequence_draft import IGNORED

CLASSES = DataInfo(
    name="x", kind="sequences", target="class", metric="accuracy", train=1, test=1,
    classes=("no", "yes"),
)  # fmt: skip
NUMBERS = dataclasses.replace(CLASSES, target="number", metric="pearson", classes=())
TAGS = dataclasses.replace(
    CLASSES, target="tags", metric="f1", classes=("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
)


def logits_of(guesses: torch.Tensor, classes: int) -> torch.Tensor:
    return torch.nn.functional.one_hot(guesses, classes).float()


@pytest.mark.parametrize("classes", [2, 4])
def test_classes_as_scikit_learn_has_them(classes: int) -> None:
    info = dataclasses.replace(CLASSES, classes=tuple("abcd"[:classes]), metric="matthews")
    random = np.random.default_rng(classes)
    true = random.integers(classes, size=200)
    guessed = np.where(random.random(200) < 0.6, true, random.integers(classes, size=200))
    parts = [slice(0, 70), slice(70, 200)]
    total = sum(
        (
            score_sequences(
                logits_of(torch.from_numpy(guessed[part]), classes),
                torch.from_numpy(true[part]),
                info,
            )
            for part in parts
        ),
        Score(),
    )
    found = total.metrics(info)
    assert next(iter(found)) == "matthews"
    assert found["accuracy"] == pytest.approx(100 * oracle.accuracy_score(true, guessed))
    assert found["matthews"] == pytest.approx(100 * oracle.matthews_corrcoef(true, guessed))
    assert ("f1" in found) == (classes == 2)
    if classes == 2:
        assert found["f1"] == pytest.approx(100 * oracle.f1_score(true, guessed))


def test_matthews_by_hand() -> None:
    """3 of 4 yes found, 1 of 2 no taken for yes: (3·1 - 1·1) / sqrt(4·4·2·2) = 0.25."""
    true = torch.tensor([1, 1, 1, 1, 0, 0])
    guessed = torch.tensor([1, 1, 1, 0, 1, 0])
    found = score_sequences(logits_of(guessed, 2), true, CLASSES).metrics(CLASSES)
    assert found["matthews"] == pytest.approx(25.0)
    assert found["f1"] == pytest.approx(75.0)
    assert found["accuracy"] == pytest.approx(100 * 4 / 6)


def test_one_answer_for_all_has_no_correlation() -> None:
    true = torch.tensor([0, 1, 1])
    found = score_sequences(logits_of(torch.ones(3, dtype=torch.long), 2), true, CLASSES)
    assert found.metrics(CLASSES)["matthews"] == 0
    flat = score_sequences(torch.full((3, 1), 2.0), torch.tensor([1.0, 2.0, 3.0]), NUMBERS)
    assert flat.metrics(NUMBERS)["pearson"] == 0


def test_numbers_as_numpy_has_them() -> None:
    random = np.random.default_rng(0)
    true = random.uniform(0, 5, 100).astype(np.float32)
    guessed = (true + random.normal(0, 1, 100)).astype(np.float32)
    total = Score()
    for part in (slice(0, 1), slice(1, 60), slice(60, 100)):
        outputs = torch.from_numpy(guessed[part])[:, None]
        total += score_sequences(outputs, torch.from_numpy(true[part]), NUMBERS)
    found = total.metrics(NUMBERS)
    expected = np.corrcoef(true.astype(np.float64), guessed.astype(np.float64))[0, 1]
    assert found["pearson"] == pytest.approx(100 * expected, rel=1e-9)
    assert found["loss"] == pytest.approx(float(((true - guessed) ** 2).mean()), rel=1e-5)
    assert list(found) == ["pearson", "loss"]


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ("O O O", set()),
        ("B-PER I-PER O B-LOC", {("PER", 0, 2), ("LOC", 3, 4)}),
        ("B-PER B-PER I-PER", {("PER", 0, 1), ("PER", 1, 3)}),
        # without B an entity begins all the same, and another kind begins another
        ("I-PER I-PER O I-LOC", {("PER", 0, 2), ("LOC", 3, 4)}),
        ("B-PER I-LOC I-LOC", {("PER", 0, 1), ("LOC", 1, 3)}),
        ("O B-LOC I-LOC", {("LOC", 1, 3)}),
        ("", set()),
    ],
)
def test_spans(tags: str, found: set[tuple[str, int, int]]) -> None:
    assert spans(tags.split()) == found


def test_entities_by_hand() -> None:
    """Of 3 true entities 1 is found whole; one has a wrong end, one a wrong kind; 4 are found."""
    true = torch.tensor(
        [[IGNORED, 1, 2, IGNORED, 0, 3, 0, IGNORED], [IGNORED, 1, 2, 0, 0] + [IGNORED] * 3]
    )
    guessed = torch.tensor([[4, 1, 2, 4, 0, 1, 0, 1], [1, 1, 0, 0, 3, 1, 1, 1]])
    found = score_sequences(logits_of(guessed, 5), true, TAGS)
    assert found.sums == (1, 4, 3)
    assert found.examples == 9
    metrics = found.metrics(TAGS)
    assert metrics["precision"] == pytest.approx(25.0)
    assert metrics["recall"] == pytest.approx(100 / 3)
    assert metrics["f1"] == pytest.approx(100 * 2 * 1 / 7)
    assert metrics["accuracy"] == pytest.approx(100 * 6 / 9)
    assert next(iter(metrics)) == "f1"


def test_no_entities_anywhere() -> None:
    nothing = score_sequences(
        logits_of(torch.zeros(1, 3, dtype=torch.long), 5), torch.zeros(1, 3).long(), TAGS
    )
    assert nothing.metrics(TAGS)["f1"] == 0
    assert nothing.metrics(TAGS)["accuracy"] == 100


kinds = st.sampled_from(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])


@given(st.lists(kinds, max_size=12))
def test_spans_are_the_tags_that_are_not_o(tags: list[str]) -> None:
    """Each tagged word is in one span of its kind, spans are disjoint, and B begins one."""
    inside: dict[int, str] = {}
    for kind, start, stop in spans(tags):
        for place in range(start, stop):
            assert place not in inside
            inside[place] = kind
            assert place == start or tags[place] == f"I-{kind}"
    assert inside == {p: tag[2:] for p, tag in enumerate(tags) if tag != "O"}
    starts = {start for _, start, _ in spans(tags)}
    assert {p for p, tag in enumerate(tags) if tag.startswith("B")} <= starts
