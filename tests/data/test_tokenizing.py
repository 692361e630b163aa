"""Texts to tokens, by hand."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from heterofl_ray.data.tokenizing import WordPieces, WordTokenizer, open_tokenizer, split_words
from heterofl_ray.errors import DataError

PIECES = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "affable"),
    *("cafe", "!", "你", "runs", "##s", "run", ",", "U"),
]


def named(tokenizer: WordPieces | WordTokenizer, text: str) -> list[str]:
    return [tokenizer.vocabulary[number] for number in tokenizer.encode(text)]


def test_words() -> None:
    assert split_words("It's FINE, really!") == ["it", "'", "s", "fine", ",", "really", "!"]
    tokenizer = WordTokenizer(["a", "cat", "a"])
    assert tokenizer.vocabulary[5:] == ["a", "cat"]
    assert named(tokenizer, "A dog, a cat") == ["a", "<unknown>", "<unknown>", "a", "cat"]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("unaffable", ["un", "##aff", "##able"]),  # the longest piece from the front each time
        ("Unaffable!", ["un", "##aff", "##able", "!"]),
        ("Café,你runs", ["cafe", ",", "你", "runs"]),  # accents go, Chinese stands alone
        ("unknown run", ["[UNK]", "run"]),  # a rest without a piece makes the word unknown
        ("run\u200b s", ["run", "[UNK]"]),
        ("run" + "s" * 98, ["[UNK]"]),  # over a hundred characters
        ("", []),
    ],
)
def test_word_pieces(text: str, pieces: list[str]) -> None:
    assert named(WordPieces(PIECES, True, "here"), text) == pieces


def test_cased_pieces_keep_case_and_accents() -> None:
    tokenizer = WordPieces(PIECES, False, "here")
    assert named(tokenizer, "U unaffable Café") == ["U", "un", "##aff", "##able", "[UNK]"]
    assert tokenizer.encode_word("\u200b") == [1]  # never nothing


def test_a_folder_says_whether_case_counts(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    assert open_tokenizer(tmp_path).encode("U") == [1]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    assert open_tokenizer(tmp_path).encode("U") == [15]
    assert open_tokenizer(tmp_path / "vocab.txt").frame.start == (2,)


def test_a_tokenizer_file_needs_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(DataError, match=r"pip install 'heterofl-ray\[text\]'"):
        open_tokenizer(tmp_path)


def test_a_tokenizer_file(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    words = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "run": 4, "far": 5}
    model = tokenizers.models.WordLevel(words, unk_token="<unk>")
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    tokenizer = open_tokenizer(tmp_path)
    assert tokenizer.encode("run far away") == [4, 5, 3]
    assert tokenizer.encode_word("far") == [5]
    assert (tokenizer.frame.padding, tokenizer.frame.between) == (1, (2, 2))
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(DataError, match="cannot be read as a tokenizer"):
        open_tokenizer(tmp_path)
