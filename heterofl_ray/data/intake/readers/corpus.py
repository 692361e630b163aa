"""Text files as words: what whitespace separates, and ``<eos>`` at the end of every line."""

from __future__ import annotations

import re
from pathlib import Path

from heterofl_ray.data.intake.archives import staged
from heterofl_ray.data.intake.limits import LARGEST_TEXT
from heterofl_ray.data.intake.readers.contract import Options, Words
from heterofl_ray.errors import DataError
from heterofl_ray.plain_files import read_bytes

END = "<eos>"
SUFFIXES = (".txt", ".tokens", ".raw")
_SPLIT = re.compile(r"(?:\w+\.)?(train|valid|test)\.(?:txt|tokens|raw)")


def is_split(base: str) -> bool:
    """Whether a file is named as a part of a text: wiki.train.tokens, ptb.test.txt, valid.txt."""
    return _SPLIT.fullmatch(base) is not None


def read(place: Path, options: Options) -> Words:
    """One text file, or a folder or archive of files that are named by their part."""
    test = read_words(options.test) if options.test is not None else None
    if place.is_file() and place.suffix in SUFFIXES:
        return Words(read_words(place), test)
    with staged(place, is_split) as stage:
        parts = {_part(path): path for path in sorted(stage.iterdir())}
        if len(parts) < len(list(stage.iterdir())):
            raise DataError(f"{place} has more than one text for the same part; name one folder")
        if "train" not in parts:
            raise DataError(
                f"{place} has no text for training (wiki.train.tokens, ptb.train.txt or train.txt);"
                " name the files: import TRAINING_FILE --test TEST_FILE"
            )
        if test is None and {"test", "valid"} & set(parts):
            test = read_words(parts.get("test") or parts["valid"])
        return Words(read_words(parts["train"]), test)


def read_words(path: Path) -> list[str]:
    """The words of a UTF-8 file."""
    lines = read_lines(path)
    words = [word for line in lines for word in (*line.split(), END)]
    if len(words) == len(lines):
        raise DataError(f"{path.name} has no words")
    return words


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file."""
    return lines_of(read_bytes(path, LARGEST_TEXT), path.name)


def lines_of(content: bytes, name: str) -> list[str]:
    try:
        lines = content.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name} is not UTF-8 text: byte {error.start} cannot be read; convert it first"
        ) from None
    if not lines[-1]:
        lines.pop()
    return lines


def _part(path: Path) -> str:
    match = _SPLIT.fullmatch(path.name)
    return match[1] if match else ""
