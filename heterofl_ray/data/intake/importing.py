"""From a path on disk to a data set: which layout it is, and what a known name adds to it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from heterofl_ray.data import catalog
from heterofl_ray.data.catalog import Source
from heterofl_ray.data.intake.archives import entries, is_archive
from heterofl_ray.data.intake.drafting import labelled_draft, text_draft
from heterofl_ray.data.intake.readers import (
    arrays,
    cifar,
    corpus,
    folders,
    idx,
    leaf,
    sentences,
    tables,
    tagged,
)
from heterofl_ray.data.intake.readers.contract import Labelled, Options, Sentences, Tagged, Words
from heterofl_ray.data.intake.sequence_drafting import sentences_draft, tagged_draft
from heterofl_ray.data.places import check_name
from heterofl_ray.data.store import Dataset, Draft, write_dataset
from heterofl_ray.errors import DataError

Reader = Callable[[Path, Options], Labelled | Words | Sentences | Tagged]


@dataclass(frozen=True)
class Layout:
    """A way in which data lies on disk."""

    about: str
    read: Reader
    takes: tuple[str, ...]
    """The options that mean something for it."""


IDX = Layout("IDX files", idx.read, ())
CIFAR = Layout("CIFAR batches", cifar.read, ())
IMAGES = Layout("class folders of images", folders.read, ("test", "size"))
LEAF = Layout("LEAF's JSON files", leaf.read, ())
TABLES = Layout("a table", tables.read, ("test", "label", "client", "size"))
TEXT = Layout("text", corpus.read, ("test",))
SENTENCES = Layout("sentences", sentences.read, ("test", "label", "tokenizer", "length"))
TAGGED = Layout("tagged words", tagged.read, ("test", "tokenizer", "length"))
ARRAYS = Layout("arrays", arrays.read, ("test", "label", "client"))
_FORMATS = (
    "a folder or archive of CLASS/image files, IDX files, CIFAR batches, text files, GLUE's .tsv "
    "files, CoNLL files or LEAF's JSON; or one .npz, .parquet, .csv, .tsv, .conll or .txt file"
)


def import_data(root: Path, path: Path, name: str, options: Options) -> Dataset:
    """Read what lies at ``path`` and keep it as ``name``, all or nothing."""
    check_name(name)
    source = catalog.SOURCES.get(name)
    if name.startswith("synthetic-") or (source is not None and source.kind != "files"):
        raise DataError(f"the name {name!r} belongs to a data set that needs no files; use another")
    if source is None:
        return write_dataset(root, read_draft(path, name, options))
    return write_dataset(root, read_known(path, name, source, options))


def read_known(path: Path, name: str, source: Source, options: Options | None = None) -> Draft:
    """What lies at ``path``, and what its known name adds to it."""
    options = options or Options()
    if options.prefix is None:
        options = dataclasses.replace(options, prefix=source.prefix)
    return _known(read_draft(path, name, options), source)


def read_draft(path: Path, name: str, options: Options) -> Draft:
    for place in (path, options.test, options.tokenizer):
        if place is not None and not place.exists():
            raise DataError(f"{place} does not exist")
        if place is not None and not (place.is_file() or place.is_dir()):
            raise DataError(f"{place} is neither a file nor a folder")
    layout, place = detect(path)
    for option in ("test", "label", "client", "size", "tokenizer", "length"):
        if getattr(options, option) is not None and option not in layout.takes:
            raise DataError(f"--{option} means nothing for {layout.about}, which {path} holds")
    given = layout.read(place, options)
    origin = str(path.absolute())
    if options.test is not None:
        origin += f", tested on {options.test.absolute()}"
    if isinstance(given, Sentences):
        return sentences_draft(name, given, options, origin=origin)
    if isinstance(given, Tagged):
        return tagged_draft(name, given, options, origin=origin)
    if isinstance(given, Words):
        return text_draft(name, given, origin=origin)
    return labelled_draft(name, given, origin=origin)


def detect(path: Path) -> tuple[Layout, Path]:
    """The layout of what lies at ``path``, and the folder, archive or file that has it."""
    if path.is_file() and not is_archive(path):
        for layout, suffixes in (
            (ARRAYS, (".npz",)),
            (TABLES, tables.SUFFIXES),
            (SENTENCES, sentences.SUFFIXES),
            (TAGGED, tagged.SUFFIXES),
            (TEXT, corpus.SUFFIXES),
        ):
            if path.name.endswith(suffixes):
                tags = layout in (SENTENCES, TEXT) and tagged.file_holds_tags(path)
                return (TAGGED if tags else layout), path
        raise DataError(f"{path} is of no known format; what can be read: {_FORMATS}")
    inner = [file for file in sorted(path.iterdir()) if is_archive(file)] if path.is_dir() else []
    for place in (path, *inner):
        found = _layout_of((entry.name for entry in entries(place)), place)
        if found is not None:
            return found, place
    raise DataError(f"{path} holds nothing that can be read; what can be: {_FORMATS}")


def _known(draft: Draft, source: Source) -> Draft:
    """The draft with its name's published statistics, its class names, its augmentation."""
    info = draft.info
    if info.kind != source.task or (source.shape and info.shape != source.shape):
        raise DataError(
            f"the name {info.name!r} belongs to {source.about}; what was read is {info.kind} "
            f"of shape {info.shape}: use another name"
        )
    named = len(source.classes) == len(info.classes)
    info = dataclasses.replace(
        info,
        mean=source.mean or info.mean,
        std=source.std or info.std,
        classes=source.classes if named else info.classes,
        augment=source.augment,
    )
    return dataclasses.replace(draft, info=info)


def _layout_of(names: Iterable[str], place: Path) -> Layout | None:
    """The layout of files with these names. One may settle it alone: no walk of a long tar then."""
    bases: set[str] = set()
    for name in names:
        folder, _, base = name.removesuffix(".gz").rpartition("/")
        if idx.is_idx(base):
            return IDX
        if folder and folders.is_image(base):
            return IMAGES
        bases.add(base)
    if cifar.kind_of(bases):
        return CIFAR
    if place.is_dir() and any(tables.is_part(base) for base in bases):
        return TABLES
    if any(sentences.is_part(base) for base in bases):
        return TAGGED if tagged.folder_holds_tags(place) else SENTENCES
    if any(tagged.is_part(base) for base in bases):
        return TAGGED
    if any(corpus.is_split(base) for base in bases):
        return TAGGED if tagged.folder_holds_tags(place) else TEXT
    if any(leaf.is_leaf(base) for base in bases) and leaf.holds_writers(place):
        return LEAF
    return IMAGES if any(folders.is_image(base) for base in bases) else None
