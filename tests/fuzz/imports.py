"""Data as it lies on disk: small valid files of every layout, damaged, and made to deceive."""

from __future__ import annotations

import gzip
import io
import json
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from PIL import Image

from . import packing
from .damage import damaged

Files = dict[str, bytes]
"""By their paths below the folder that is given; one alone is given as a file."""


def picture(
    value: int = 0, size: tuple[int, int] = (4, 6), kind: str = "PNG", mode: str = "L"
) -> bytes:
    stream = io.BytesIO()
    Image.new(mode, (size[1], size[0]), value).save(stream, kind)
    return stream.getvalue()


_POSTSCRIPT = (
    b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n%%EndComments\n(x) (w) file\n%%EOF\n"
)
_PICTURES = (
    picture(),
    picture(9, mode="RGB"),
    picture(9, mode="P"),
    picture(9, mode="I;16"),
    *(picture(kind=kind) for kind in ("JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")),
    picture(kind="TGA", mode="RGB"),
    picture(kind="PCX"),
    _POSTSCRIPT,
)


def _claimed(width: int, height: int) -> bytes:
    """A PNG whose header claims another size, with the right checksum."""
    content = picture()
    header = b"IHDR" + struct.pack(">II", width, height) + content[24:29]
    return content[:12] + header + struct.pack(">I", packing.crc(header)) + content[33:]


_SIDES = st.sampled_from([0, 1, 4, 6, 255, 8192, 8193, 2**20, 2**31 - 1, 2**31, 2**32 - 1])


def pictures() -> st.SearchStrategy[bytes]:
    claims = st.builds(_claimed, _SIDES, _SIDES)
    plain = st.sampled_from(_PICTURES)
    return plain | claims | plain.flatmap(damaged) | st.just(picture())


_PLACES = st.sampled_from(
    [
        "train/a/1.png",
        "train/b/1.jpg",
        "test/a/1.png",
        "a/1.png",
        "1.png",
        "a/b/c/1.tif",
        "a/\udce9.png",
    ]
)


_IMAGES: Files = {
    f"{split}/{label}/1.png": picture() for split in ("train", "test") for label in "ab"
}


def image_folders() -> st.SearchStrategy[Files]:
    changed = st.dictionaries(_PLACES, pictures(), max_size=2).map(lambda some: {**_IMAGES, **some})
    return changed | st.dictionaries(_PLACES, pictures(), min_size=1, max_size=4)


def _idx(axes: tuple[int, ...], body: int) -> bytes:
    return bytes((0, 0, 8, len(axes))) + struct.pack(f">{len(axes)}I", *axes) + bytes(body)


@st.composite
def idx_folders(draw: st.DrawFn) -> Files:
    packed = draw(st.booleans())
    files: Files = {}
    for part, count in (("train", 3), ("t10k", 2)):
        for name, axes in (("images-idx3", (count, 4, 4)), ("labels-idx1", (count,))):
            content = _idx(axes, int(np.prod(axes)))
            if draw(st.integers(0, 3)) == 0:
                sizes = draw(st.lists(_SIDES, min_size=1, max_size=4))
                content = draw(damaged(content) | st.just(_idx(tuple(sizes), 16)))
            if packed:
                content = gzip.compress(content)
                if draw(st.integers(0, 3)) == 0:
                    content = draw(damaged(content))
            files[f"{part}-{name}-ubyte{'.gz' * packed}"] = content
    return files


def _npy(header: str, body: bytes) -> bytes:
    text = header.encode("latin1", "replace") + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) % 65536) + text + body


def _array_headers() -> st.SearchStrategy[str]:
    dims = st.lists(st.sampled_from([0, 1, 2, 5, 10**6, 2**31, 2**62, 2**63, -1, "x"]), max_size=4)
    kinds = st.sampled_from(
        [
            "|u1",
            "<f4",
            "<f8",
            ">i2",
            "<i8",
            "<u8",
            "<U4",
            "|S3",
            "|O",
            "<c16",
            "<M8[s]",
            "|V8",
            "|b1",
            "zz",
        ]
    )
    return st.builds(
        lambda kind, shape, order: (
            f"{{'descr': '{kind}', 'fortran_order': {order}, 'shape': "
            f"({''.join(f'{d}, ' for d in shape)}), }}"
        ),
        kinds,
        dims,
        st.booleans(),
    )


@st.composite
def array_files(draw: st.DrawFn) -> Files:
    """An .npz, its members written by hand."""
    shape = draw(st.sampled_from([(12, 4, 4), (12, 4), (12, 4, 4, 3), (12,), (), (0, 3)]))
    kinds = st.sampled_from(
        ["u1", "f4", "f8", "i8", "u8", "U3", "S3", "c8", "M8[s]", "?", "O", "V3"]
    )
    names = [
        "x",
        "y",
        *draw(st.lists(st.sampled_from(["writer", "coarse", "classes"]), max_size=2)),
    ]
    members = {f"{name}.npy": _saved(shape if name == "x" else shape[:1], "u1") for name in names}
    for name in draw(st.lists(st.sampled_from(sorted(members)), max_size=2)):
        match draw(st.integers(0, 4)):
            case 0:
                members[name] = _npy(draw(_array_headers()), draw(st.binary(max_size=80)))
            case 1:
                members[name] = draw(damaged(members[name]))
            case 2:
                members[name.removesuffix(".npy")] = members[name]
            case _:
                members[name] = _saved(draw(st.sampled_from([shape, shape[:1], (3,)])), draw(kinds))
    return {"given.npz": draw(packing.zips(members) | st.just(packing.plain_zip(members)))}


def _saved(shape: tuple[int, ...], kind: str) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.zeros(shape, dtype=kind), allow_pickle=True)
    return stream.getvalue()


_CELLS = st.sampled_from(
    ["1", "0", "-3", "1.5", "nan", "inf", "1e999", "", "x", "\0", '"', "é", "9" * 30]
)
_HEADINGS = st.sampled_from(["a", "b", "label", "client", "y", "", "a,a", "\0", '"a'])


def tables() -> st.SearchStrategy[Files]:
    lines = st.lists(st.lists(_CELLS, min_size=1, max_size=4).map(",".join), max_size=8)
    text = st.builds(
        lambda head, rows: "\n".join([",".join(head), *rows]).encode(),
        st.lists(_HEADINGS, min_size=1, max_size=4),
        lines,
    )
    valid = b"a,b,label\n" + b"".join(b"%d,2,%d\n" % (n, n % 2) for n in range(12))
    return (text | damaged(valid)).map(lambda content: {"given.csv": content})


def _parquet(
    columns: dict[str, Any], metadata: dict[str, str] | None = None, kind: str = "snappy"
) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), stream, compression=kind)
    return stream.getvalue()


def _names(names: Any) -> dict[str, str]:
    return {"huggingface": json.dumps({"info": {"features": {"label": {"names": names}}}})}


_TABLES = (
    _parquet({"a": [1.0] * 12, "label": [0, 1] * 6}, _names(["x", "y"])),
    _parquet({"a": [1.0] * 12, "label": [0, 1] * 6}, _names([1, None]), "gzip"),
    _parquet({"a": [1.0] * 12, "label": [0, 1] * 6}, _names("ab"), "zstd"),
    _parquet({"a": [1] * 12, "label": [0, 1] * 6}, {"huggingface": "[" * 100_000}),
    _parquet({"image": [picture()] * 12, "label": ["a", "b"] * 6}),
    _parquet({"image": [{"bytes": picture(), "path": None}] * 12, "label": [0, 1] * 6}),
    _parquet({"image": [{"bytes": 3}] * 12, "label": [0, 1] * 6}),
    _parquet({"a": [1] * 12, "label": [b"\xff", b"a"] * 6}),
    _parquet({"a": [[1]] * 12, "label": [[0], [1]] * 6}),
    _parquet({"a": [1.0] * 10_000, "label": [0] * 10_000}, None, "zstd"),
)


def parquet_files() -> st.SearchStrategy[Files]:
    valid = st.sampled_from(_TABLES)
    return (valid | valid.flatmap(damaged)).map(lambda content: {"given.parquet": content})


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.just(2**70),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=2)
    ),
    max_leaves=5,
)


@st.composite
def leaf_files(draw: st.DrawFn) -> Files:
    pixels = draw(
        st.sampled_from([[[0.5] * 783] * 6, [[1e400] * 784] * 6, [], 3])
        | st.just([[0.5] * 784] * 6)
    )
    wrong = [[62] * 6, [2**70] * 6, [-1] * 6, [1.5] * 6, ["1"] * 6, [], [[1]] * 6, [1] * 5, 3, None]
    labels = draw(st.sampled_from(wrong) | st.just([1] * 6))
    users = st.sampled_from([["f1", "f2"], [], [[1]], "f1", [1], None, {"f1": 2}])
    values: Any = {
        "users": draw(users | st.just(["f1"])),
        "num_samples": [6],
        "user_data": draw(_JSON | st.just({"f1": {"x": pixels, "y": labels}})),
    }
    text = json.dumps(draw(_JSON) if draw(st.integers(0, 9)) == 0 else values).encode()
    if draw(st.integers(0, 4)) == 0:
        text = draw(damaged(text) | st.just(b"[" * 100_000) | st.just(b'{"users":' * 50_000))
    name = draw(st.sampled_from(["train/a.json", "a.json", "test/a.json"]))
    return {name: text}


_WORDS = st.text(max_size=5) | st.sampled_from(["\0", "é", "\u2028", "\r", "\x85", "a" * 2000])


def text_files() -> st.SearchStrategy[Files]:
    lines = st.lists(st.lists(_WORDS, max_size=5).map(" ".join), max_size=12).map("\n".join)
    valid = b"the cat sat on the mat\n" * 5
    content = lines.map(lambda text: text.encode("utf-8", "replace")) | damaged(valid)
    names = st.sampled_from(
        ["given.txt", "train.txt", "x.train.tokens", "test.txt", "wiki.valid.raw"]
    )
    return st.dictionaries(names, content, min_size=1, max_size=3)


def sentence_files() -> st.SearchStrategy[Files]:
    heads = st.sampled_from(
        ["sentence\tlabel", "sentence1\tsentence2\tscore", "text\tlabel", "label", "\t"]
    )
    cells = st.lists(_WORDS | st.sampled_from(["0", "1", "nan", "2.5"]), max_size=4).map("\t".join)
    text = st.builds(
        lambda head, rows: "\n".join([head, *rows]), heads, st.lists(cells, max_size=12)
    )
    valid = b"sentence\tlabel\n" + b"a good film\t1\na bad film\t0\n" * 6
    content = text.map(lambda made: made.encode("utf-8", "replace")) | damaged(valid)
    names = st.sampled_from(["given.tsv", "train.tsv", "dev.tsv"])
    return st.dictionaries(names, content, min_size=1, max_size=2)


def tagged_files() -> st.SearchStrategy[Files]:
    tags = st.sampled_from(["O", "B-PER", "I-PER", "B-", "I-\0", "X", ""])
    line = st.builds(lambda word, tag: f"{word} {tag}", _WORDS, tags) | st.just("")
    text = st.lists(line, max_size=12).map("\n".join)
    valid = b"Ann B-PER\nsleeps O\n\n" * 6
    content = (
        text.map(lambda made: made.encode("utf-8", "replace")) | damaged(valid) | st.just(valid)
    )
    names = st.sampled_from(
        ["given.conll", "train.conll", "a/train.conll", "b/train.txt", "b/test.txt"]
    )
    return st.dictionaries(names, content, min_size=1, max_size=3)


def cifar_files() -> st.SearchStrategy[Files]:
    names = [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch", "batches.meta"]
    pickled = b"cos\nmkdir\n(S'../evil'\ntR."
    return st.dictionaries(
        st.sampled_from([*names, "train", "test", "meta"]),
        st.just(pickled) | st.binary(max_size=40),
        max_size=9,
    ).map(lambda extra: {**dict.fromkeys(names, pickled), **extra})


PLAIN: dict[str, st.SearchStrategy[Files]] = {
    "images": image_folders(),
    "idx": idx_folders(),
    "npz": array_files(),
    "csv": tables(),
    "parquet": parquet_files(),
    "leaf": leaf_files(),
    "text": text_files(),
    "sentences": sentence_files(),
    "tagged": tagged_files(),
    "cifar": cifar_files(),
}


def archived() -> st.SearchStrategy[Files]:
    """Any of it in an archive, whose own structure may be damaged too."""
    return st.one_of(*PLAIN.values()).flatmap(packing.archives)
