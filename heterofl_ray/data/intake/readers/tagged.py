"""Words with tags, as CoNLL has them: a word a line, its tag last, an empty line after a sentence.

Tags are O, B-KIND and I-KIND. Several folders with a training file each are clients of their own,
named by their folders.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from heterofl_ray.data.intake.archives import Entry, entries, reading
from heterofl_ray.data.intake.limits import LARGEST_TEXT
from heterofl_ray.data.intake.readers import corpus
from heterofl_ray.data.intake.readers.contract import Options, Tagged, TaggedWords
from heterofl_ray.errors import DataError
from heterofl_ray.plain_files import read_bytes

SUFFIXES = (".conll", ".bio", ".iob", ".iob2")
_NAME = re.compile(
    r"(?:[\w-]+\.)?(train|dev|devel|valid|test|testa|testb)(?:\.(?:txt|tsv|conll|bio|iob2?))?"
)
_AMBIGUOUS = (*corpus.SUFFIXES, ".tsv")
"""Files that may as well hold something else."""
_TAG = re.compile(r"O|[BI]-\S+")
_TESTS = ("test", "testb", "dev", "devel", "valid", "testa")
_LOOKED_AT, _BEGINNING = 40, 1 << 16
"""Lines that tell tagged words from plain text, and bytes that they are in."""
_DOCUMENT = "-DOCSTART-"


def is_part(base: str) -> bool:
    """Whether a name alone says that a file has tags: train.conll, eng.testb."""
    return _NAME.fullmatch(base) is not None and not base.endswith(_AMBIGUOUS)


def holds_tags(content: bytes) -> bool:
    """Whether a text's first lines are words with tags."""
    lines = content.decode("utf-8-sig", errors="replace").split("\n")[:_LOOKED_AT]
    columns = [line.split() for line in lines if line.strip()]
    return bool(columns) and all(
        len(row) > 1 and _TAG.fullmatch(row[-1]) is not None for row in columns
    )


def folder_holds_tags(place: Path) -> bool:
    """Whether the first text of a folder or archive has tags."""
    for entry in entries(place):
        named = _NAME.fullmatch(entry.base) is not None or corpus.is_split(entry.base)
        if named and not entry.name.endswith(".gz"):
            with reading(f"{place}: {entry.name}"), entry.open() as stream:
                return holds_tags(stream.read(_BEGINNING))
    return False


def file_holds_tags(path: Path) -> bool:
    with reading(path), path.open("rb") as stream:
        return holds_tags(stream.read(_BEGINNING))


def read(place: Path, options: Options) -> Tagged:
    """One file (and another for testing), or a folder or archive of files named by their part."""
    test = _file(options.test) if options.test else None
    if place.is_file() and place.name.endswith((*SUFFIXES, *_AMBIGUOUS)):
        return Tagged(_file(place), test)
    folders: dict[str, dict[str, list[TaggedWords]]] = {}
    for entry in entries(place):
        part = _NAME.fullmatch(PurePosixPath(entry.name).name)
        if part is not None:
            folder = str(PurePosixPath(entry.name).parent)
            folders.setdefault(folder, {})[part[1]] = _of(entry, folder)
    trained = {name: parts for name, parts in folders.items() if "train" in parts}
    if not trained:
        raise DataError(f"{place} has no tagged words for training, such as train.conll")
    tested = [next((parts[t] for t in _TESTS if t in parts), None) for parts in trained.values()]
    if test is None and all(part is not None for part in tested):
        test = [sentence for part in tested for sentence in part or []]
    train = [sentence for parts in trained.values() for sentence in parts["train"]]
    return Tagged(train, test, named_clients=len(trained) > 1)


def _file(path: Path) -> list[TaggedWords]:
    return _sentences(read_bytes(path, LARGEST_TEXT), path.name)


def _of(entry: Entry, folder: str) -> list[TaggedWords]:
    return _sentences(entry.read(LARGEST_TEXT), entry.name, PurePosixPath(folder).name)


def _sentences(content: bytes, name: str, client: str = "") -> list[TaggedWords]:
    sentences: list[TaggedWords] = []
    words: list[str] = []
    tags: list[str] = []
    for number, line in enumerate([*corpus.lines_of(content, name), ""], 1):
        columns = line.split()
        if columns and columns[0] != _DOCUMENT:
            if len(columns) < 2 or not _TAG.fullmatch(columns[-1]):
                raise DataError(
                    f"{name}: line {number} must be a word and its tag (O, B-KIND or I-KIND), not "
                    f"{line.strip()[:60]!r}"
                )
            words.append(columns[0])
            tags.append(columns[-1])
        elif words:
            sentences.append(TaggedWords(words, tags, client))
            words, tags = [], []
    if not sentences:
        raise DataError(f"{name} has no tagged words")
    return sentences
