"""Parquet and CSV: a column of encoded images or columns of numbers, labels, perhaps clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from heterofl_ray.data.intake.limits import Budget, half_of_memory, unpacked
from heterofl_ray.data.intake.pixels import decode_all
from heterofl_ray.data.intake.readers.contract import Array, Labelled, Options, Part
from heterofl_ray.errors import DataError, shown
from heterofl_ray.plain_files import parse_json

SUFFIXES = (".parquet", ".csv")
_CELL = 8
"""Bytes that a value takes at least."""
_LABELS = ("label", "labels", "class", "target", "y")
_CLIENTS = ("client", "writer", "client_id", "writer_id")


def is_part(base: str) -> bool:
    """Whether a file in a folder is named as a part: train.csv, test-00000-of-00001.parquet."""
    return base.endswith(SUFFIXES) and base.startswith("train")


def read(place: Path, options: Options) -> Labelled:
    """One file (and another for testing), or a folder of files named train… and test…"""
    test = _table(options.test, [options.test]) if options.test is not None else None
    if place.is_dir():
        files = sorted(path for path in place.iterdir() if path.suffix in SUFFIXES)
        train = _table(place, [path for path in files if path.name.startswith("train")])
        testing = [path for path in files if path.name.startswith("test")]
        if test is None and testing:
            test = _table(place, testing)
    else:
        train = _table(place, [place])
    label = _label(train, options.label, place)
    client = options.client or next((n for n in _CLIENTS if n in train.column_names), None)
    wanted = [label, *([client] if client else [])]
    features = [name for name in train.column_names if name not in wanted]
    parts = [
        _part(table, wanted, features, options, where)
        for table, where in ((train, place), (test, options.test or place))
        if table is not None
    ]
    return Labelled(parts[0], parts[1] if len(parts) > 1 else None, _class_names(train, label))


def _table(place: Path, files: list[Path]) -> pa.Table:
    try:
        table = pa.concat_tables([_read_file(path) for path in files])
        table.validate(full=True)
        names: list[str] = table.column_names
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{place} cannot be read as a table: {str(error)[:300]}") from None
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{place} has two columns {shown(twice)}")
    return table


def _read_file(path: Path) -> pa.Table:
    if not path.is_file():
        raise OSError(f"{path.name} is not a file")
    if path.suffix == ".csv":
        return pyarrow.csv.read_csv(str(path))
    with path.open("rb") as file:
        parquet = pyarrow.parquet.ParquetFile(file)
        _check_claims(parquet.metadata, path)
        return parquet.read()


def _check_claims(said: pyarrow.parquet.FileMetaData, path: Path) -> None:
    """Refuse a file that claims to become far more than it is: rows and pages are but numbers."""
    most = min(unpacked(path.stat().st_size), half_of_memory())
    budget = Budget(most, f"{path} unpacks to")
    for group in map(said.row_group, range(said.num_row_groups)):
        budget.take(max(0, group.num_rows) * said.num_columns * _CELL)
        for column in map(group.column, range(group.num_columns)):
            budget.take(max(0, column.total_uncompressed_size))


def _label(table: pa.Table, wanted: str | None, place: Path) -> str:
    names: list[str] = table.column_names
    if wanted is not None:
        if wanted not in names:
            raise DataError(f"{place} has no column {wanted!r}; it has {', '.join(names)}")
        return wanted
    found = next((name for name in _LABELS if name in names), None)
    if found is None:
        raise DataError(
            f"{place} has no column {' or '.join(map(repr, _LABELS))}; "
            f"--label names the column of labels, one of {', '.join(names)}"
        )
    return found


def _part(
    table: pa.Table, wanted: list[str], features: list[str], options: Options, place: Path
) -> Part:
    """Columns by their names: the training table's order holds for the test table too."""
    for name in (*wanted, *features):
        if name not in table.column_names:
            raise DataError(
                f"{place} has no column {name!r}; it has {', '.join(table.column_names)}"
            )
    pictures = next(
        (name for name in features if _holds_images(table.schema.field(name).type)), None
    )
    images = (
        decode_all(_encoded(table[pictures], pictures, place), options.size)[1]
        if pictures is not None
        else _features(table, features, place)
    )
    label, client = wanted[0], wanted[1] if len(wanted) > 1 else None
    return Part(
        images, _values(table, label, place), _values(table, client, place) if client else None
    )


def _holds_images(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return bool(kind.get_field_index("bytes") >= 0)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _encoded(column: pa.ChunkedArray, name: str, place: Path) -> Iterator[tuple[str, bytes]]:
    """Images as plain bytes, or as Hugging Face writes them: {bytes, path}."""
    for row, value in enumerate(column):
        content = value.as_py()
        if isinstance(content, dict):
            content = content["bytes"]
        where = f"{place}: {name} in row {row}"
        if not isinstance(content, bytes):
            raise DataError(f"{where} has no bytes; images must be in the table itself")
        yield where, content


def _features(table: pa.Table, names: list[str], place: Path) -> Array:
    if not names:
        raise DataError(f"{place} has no columns beside labels and clients")
    features = np.empty((table.num_rows, len(names)), dtype=np.float32)
    for place_of, name in enumerate(names):
        kind = table.schema.field(name).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise DataError(f"{place}: column {name!r} holds {kind}, no numbers; leave it out")
        features[:, place_of] = _values(table, name, place)
    return features


def _values(table: pa.Table, name: str, place: Path) -> Array:
    column = table[name]
    if column.null_count:
        raise DataError(f"{place}: column {name!r} lacks {column.null_count} values")
    values: Array = column.to_numpy()
    if values.dtype != object:
        return values
    try:
        return values.astype(str)
    except ValueError:
        raise DataError(f"{place}: column {name!r} holds bytes that are no text") from None


def _class_names(table: pa.Table, label: str) -> tuple[str, ...]:
    """The names of classes that Hugging Face keeps in a table's metadata."""
    written = (table.schema.metadata or {}).get(b"huggingface", b"{}")
    try:
        names = parse_json(written, "metadata")["info"]["features"][label]["names"]
    except (DataError, LookupError, TypeError):
        return ()
    texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return tuple(names) if texts else ()
