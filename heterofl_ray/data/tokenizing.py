"""Texts to token numbers: by a training set's own words, by a BERT's word pieces, by a tokenizer.

A sequence is START first END, or START first BETWEEN second END.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from heterofl_ray.data.words import UNKNOWN
from heterofl_ray.errors import DataError
from heterofl_ray.plain_files import read_bytes, read_json

Numbers = list[int]

_LARGEST = 64 * 1024**2
"""Bytes of a vocabulary's file."""
_SPARSE = 10
"""So many numbers for each token; some vocabularies have gaps."""


@dataclass(frozen=True)
class Frame:
    """The tokens that stand around texts."""

    padding: int
    start: tuple[int, ...]
    between: tuple[int, ...]
    end: tuple[int, ...]


class Tokenizer(Protocol):
    frame: Frame

    @property
    def vocabulary(self) -> Sequence[str]:
        """By token number."""

    def encode(self, text: str) -> Numbers:
        """A text's tokens."""

    def encode_word(self, word: str) -> Numbers:
        """The tokens of a word that stands in the middle of a text; at least one."""


def split_words(text: str) -> list[str]:
    """Words and single punctuation marks, in lower case."""
    return re.findall(r"\w+|[^\w\s]", text.lower())


class WordTokenizer:
    """A token for each word of the training set, in order of appearance."""

    def __init__(self, words: Iterable[str]) -> None:
        self.vocabulary = list(
            dict.fromkeys(["<padding>", UNKNOWN, "<start>", "<between>", "<end>", *words])
        )
        self.frame = Frame(0, (2,), (3,), (4,))
        self._numbers = {word: number for number, word in enumerate(self.vocabulary)}

    def encode(self, text: str) -> Numbers:
        return [number for word in split_words(text) for number in self.encode_word(word)]

    def encode_word(self, word: str) -> Numbers:
        return [self._numbers.get(word, 1)]


class WordPieces:
    """BERT's word pieces: a word is cut into the longest pieces known, from its front."""

    LONGEST = 100
    """Characters; a longer word is unknown."""

    def __init__(self, pieces: Sequence[str], lower: bool, where: str) -> None:
        self.vocabulary = pieces
        self._numbers = {piece: number for number, piece in enumerate(pieces)}
        self._lower = lower
        self.frame = _bert_frame(self._numbers, where)
        self._unknown = _number(self._numbers, "[UNK]", where)

    def encode(self, text: str) -> Numbers:
        return [number for word in self._words(text) for number in self._pieces(word)]

    def encode_word(self, word: str) -> Numbers:
        return self.encode(word) or [self._unknown]

    def _words(self, text: str) -> Iterable[str]:
        """What whitespace separates, with every punctuation mark and Chinese character alone."""
        if self._lower:
            parts = unicodedata.normalize("NFD", text.lower())
            text = "".join(char for char in parts if unicodedata.category(char) != "Mn")
        cleaned = "".join(
            f" {char} " if _stands_alone(char) else char
            for char in text
            if char in "\t\n\r" or unicodedata.category(char)[0] != "C"
        )
        return cleaned.split()

    def _pieces(self, word: str) -> Numbers:
        if len(word) > self.LONGEST:
            return [self._unknown]
        found, start = [], 0
        while start < len(word):
            prefix = "##" if start else ""
            for end in range(len(word), start, -1):
                number = self._numbers.get(prefix + word[start:end])
                if number is not None:
                    break
            else:
                return [self._unknown]
            found.append(number)
            start = end
        return found


def _stands_alone(char: str) -> bool:
    symbol = char.isascii() and char.isprintable() and not char.isalnum() and char != " "
    chinese = "\u4e00" <= char <= "\u9fff" or "\u3400" <= char <= "\u4dbf"
    return symbol or chinese or unicodedata.category(char).startswith("P")


class FileTokenizer:
    """A tokenizer.json, through the package ``tokenizers``."""

    def __init__(self, path: Path) -> None:
        try:
            import tokenizers
        except ImportError:
            raise DataError(
                f"{path} needs the package tokenizers: pip install 'heterofl-ray[text]', "
                "or give a folder with a BERT's vocab.txt"
            ) from None
        try:
            self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # noqa: BLE001 - the package raises plain Exception
            raise DataError(f"{path} cannot be read as a tokenizer: {error}") from None
        numbers: dict[str, int] = self._tokenizer.get_vocab()
        highest = max(numbers.values(), default=0)
        if highest > _SPARSE * len(numbers):  # else a few words would take gigabytes
            raise DataError(f"{path} numbers {len(numbers)} tokens up to {highest}")
        self.vocabulary = [""] * (highest + 1)
        for piece, number in numbers.items():
            self.vocabulary[number] = piece
        if "<s>" in numbers:
            start, end, padding = (_number(numbers, s, path) for s in ("<s>", "</s>", "<pad>"))
            self.frame = Frame(padding, (start,), (end, end), (end,))
        else:
            self.frame = _bert_frame(numbers, path)
        self._unknown = numbers.get("<unk>", numbers.get("[UNK]", self.frame.padding))

    def encode(self, text: str) -> Numbers:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def encode_word(self, word: str) -> Numbers:
        # the space tells a byte-level tokenizer that a new word begins
        return self.encode(f" {word}") or [self._unknown]


def open_tokenizer(path: Path) -> Tokenizer:
    """From a Hugging Face folder, or the vocab.txt or tokenizer.json in it."""
    folder = path if path.is_dir() else path.parent
    pieces, fast = folder / "vocab.txt", folder / "tokenizer.json"
    if path in (folder, pieces) and pieces.is_file():
        return _word_pieces(pieces)
    if path in (folder, fast) and fast.is_file():
        return FileTokenizer(fast)
    raise DataError(
        f"{path} has no tokenizer: a folder with vocab.txt or tokenizer.json, or one of these files"
    )


def _word_pieces(path: Path) -> WordPieces:
    try:
        lines = read_bytes(path, _LARGEST).decode("utf-8").split("\n")
        beside = path.parent / "tokenizer_config.json"
        config = read_json(beside, _LARGEST) if beside.is_file() else {}
        lower = bool(config.get("do_lower_case", True))
    except (DataError, ValueError, AttributeError) as error:
        raise DataError(f"{path} cannot be read as a vocabulary: {str(error)[:200]}") from None
    if not lines[-1]:
        lines.pop()
    return WordPieces([line.rstrip("\r") for line in lines], lower, str(path))


def _bert_frame(numbers: Mapping[str, int], where: object) -> Frame:
    padding, start, end = (_number(numbers, name, where) for name in ("[PAD]", "[CLS]", "[SEP]"))
    return Frame(padding, (start,), (end,), (end,))


def _number(numbers: Mapping[str, int], name: str, where: object) -> int:
    if name not in numbers:
        raise DataError(f"{where} has no token {name}")
    return numbers[name]
