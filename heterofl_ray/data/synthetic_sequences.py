"""Sentences and tagged words made from a fixed seed: something to learn, nothing to download."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heterofl_ray.data.intake.readers.contract import (
    Options,
    Sentence,
    Sentences,
    Tagged,
    TaggedWords,
)
from heterofl_ray.data.intake.sequence_drafting import sentences_draft, tagged_draft
from heterofl_ray.data.store import Draft

TRAIN, TEST = 2000, 500
_SEED = 20220814
_ORIGIN = f"generated from seed {_SEED}"

_THINGS = ("film", "plot", "cast", "music", "story", "ending", "room", "food", "staff", "view")
_GOOD = ("good", "great", "lovely", "brilliant", "charming", "superb", "pleasant", "fine")
_BAD = ("bad", "awful", "dull", "terrible", "boring", "poor", "weak", "unpleasant")
_DEGREES = ("very", "quite", "really", "rather")
_OPENINGS = ("i think", "we found that", "they say", "all in all", "honestly")

_FIRST = ("Ada", "Bela", "Carl", "Dora", "Emil", "Frida", "Gustav", "Hilda", "Ivan", "Jana")
_LAST = ("Berg", "Dahl", "Falk", "Grimm", "Holm", "Keller", "Lind", "Maurer", "Novak", "Olsen")
_PLACES = ("Arendal", "Bremen", "Cuxhaven", "Dessau", "Erfurt", "Fulda", "Gera", "Husum", "Kiel")
_QUARTERS = ("North", "South", "Upper", "Lower")
_FIRMS = ("Acme", "Borealis", "Corvus", "Delta", "Electra", "Fortuna", "Globus", "Helios")
_FORMS = ("Works", "Bank", "Press", "Lines")
_SCENES = (
    "PER works for ORG in PLACE .",
    "PER moved from PLACE to PLACE last year .",
    "ORG has opened an office near PLACE .",
    "yesterday PER met PER at the station .",
    "the director of ORG , PER , was born in PLACE .",
    "it rained in PLACE all day .",
    "nobody knows why the train was late .",
    "ORG was sold to ORG for a small sum .",
)


def sentences() -> Draft:
    """Opinions of one or two clauses; the last clause counts, and 'not' turns it round."""
    random = np.random.default_rng(_SEED)
    drawn = [_opinion(random) for _ in range(TRAIN + TEST)]
    given = Sentences(drawn[:TRAIN], drawn[TRAIN:], numbers=False, metric="accuracy")
    return sentences_draft("sentences", given, Options(), origin=_ORIGIN)


def entities() -> Draft:
    """Sentences about people, places and firms, of which every name is tagged."""
    random = np.random.default_rng(_SEED)
    drawn = [_scene(random) for _ in range(TRAIN + TEST)]
    return tagged_draft("entities", Tagged(drawn[:TRAIN], drawn[TRAIN:]), Options(), origin=_ORIGIN)


def _opinion(random: np.random.Generator) -> Sentence:
    clauses = 1 + int(random.random() < 0.3)
    words: list[str] = [_one(random, _OPENINGS)] if random.random() < 0.5 else []
    for clause in range(clauses):
        good, turned = random.random(2) < (0.5, 0.15)
        words += ["but"] if clause else []
        words += ["the", _one(random, _THINGS), "was", *(["not"] if turned else [])]
        words += [_one(random, _DEGREES)] if random.random() < 0.4 else []
        words.append(_one(random, _GOOD if good else _BAD))
    return Sentence(" ".join(words) + " .", None, "positive" if good != turned else "negative")


def _scene(random: np.random.Generator) -> TaggedWords:
    words: list[str] = []
    tags: list[str] = []
    for word in _one(random, _SCENES).split():
        if word not in ("PER", "PLACE", "ORG"):
            words.append(word)
            tags.append("O")
            continue
        name = _name(word, random)
        words += name
        tags += [f"B-{word}", *[f"I-{word}"] * (len(name) - 1)]
    return TaggedWords(words, tags)


def _name(kind: str, random: np.random.Generator) -> list[str]:
    longer = random.random() < 0.5
    match kind:
        case "PER":
            return [_one(random, _FIRST), *([_one(random, _LAST)] if longer else [])]
        case "PLACE":
            return [*([_one(random, _QUARTERS)] if longer else []), _one(random, _PLACES)]
        case _:
            return [_one(random, _FIRMS), *([_one(random, _FORMS)] if longer else [])]


def _one(random: np.random.Generator, words: Sequence[str]) -> str:
    return words[int(random.integers(len(words)))]
