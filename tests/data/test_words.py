"""Words to tokens: the vocabulary is the training part's."""

from __future__ import annotations

from pathlib import Path

from heterofl_ray.data.intake.readers.corpus import is_split, read_words
from heterofl_ray.data.words import encode


def test_words_are_numbered_as_they_appear() -> None:
    draft = encode("x", ["b", "a", "b", "c"], ["a", "z", "c"], origin="here")
    assert draft.words == ["<unknown>", "b", "a", "c"]
    assert draft.splits["train"]["token"].tolist() == [1, 2, 1, 3]
    assert draft.splits["test"]["token"].tolist() == [2, 0, 3]
    assert (draft.info.vocabulary, draft.info.train, draft.info.test) == (4, 4, 3)


def test_the_unknown_word_itself_is_not_counted_twice() -> None:
    draft = encode("x", ["a", "<unknown>"], ["q"], origin="here")
    assert draft.words == ["<unknown>", "a"]
    assert draft.splits["train"]["token"].tolist() == [1, 0]


def test_every_line_ends_with_a_word_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"\xef\xbb\xbf a  b\r\n \n\nc\x0cd")
    assert read_words(path) == ["a", "b", "<eos>", "<eos>", "<eos>", "c", "d", "<eos>"]


def test_names_of_parts() -> None:
    for name in ("wiki.train.tokens", "ptb.test.txt", "valid.txt", "train.txt", "wiki.test.raw"):
        assert is_split(name)
    for name in ("training.txt", "a.b.train.txt", "train.csv", "notes.txt"):
        assert not is_split(name)
