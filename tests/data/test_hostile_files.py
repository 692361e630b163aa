"""Files made to deceive: what they claim, name or hide is refused before it costs anything."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heterofl_ray.data.intake import limits
from heterofl_ray.data.intake.importing import import_data
from heterofl_ray.data.intake.readers.contract import Options
from tests.fuzz import packing
from tests.fuzz.judging import alarm
from tests.fuzz.packing import header

Refused = Callable[..., None]
Files = Callable[..., Path]
Picture = Callable[..., bytes]
REST = bytes(1024)


@pytest.fixture(autouse=True)
def _soon() -> Iterator[None]:
    """None of these may take long, let alone for ever."""
    with alarm():
        yield


def tar(path: Path, *members: bytes) -> Path:
    path.write_bytes(b"".join(members) + REST)
    return path


def member(name: str, content: bytes, kind: bytes = b"0", link: str = "") -> bytes:
    return header(name, len(content), kind, link) + content + bytes(-len(content) % 512)


@pytest.mark.parametrize("kind", [b"0", b"x", b"L", b"Z"])
def test_a_member_of_negative_size_does_not_lead_back_for_ever(
    kind: bytes, tmp_path: Path, picture: Picture, refused: Refused
) -> None:
    path = tar(tmp_path / "x.tar", member("a/1.png", picture()), header("a/2.png", -512, kind))
    refused(path, "x.tar is damaged: a size below 0")


def test_a_size_that_is_negative_in_an_extended_header(tmp_path: Path, refused: Refused) -> None:
    extended = packing.pax({"size": "-1024"})
    path = tar(tmp_path / "x.tar", extended + member("a/1.png", bytes(8)))
    refused(path, "x.tar is damaged")


def test_an_extended_header_without_end(tmp_path: Path, refused: Refused) -> None:
    path = tmp_path / "x.tar.gz"
    first = member("a/1.txt", b"")
    path.write_bytes(gzip.compress(first + header("pax", 2**26, b"x") + bytes(2**20)))
    refused(path, "x.tar.gz is damaged: a header that is too long")


def test_links_devices_and_pipes_are_passed_over(
    root: Path, tmp_path: Path, picture: Picture
) -> None:
    secret = tmp_path / "secret.png"
    secret.write_bytes(picture(99))
    odd = [
        member("train/a/9.png", b"", kind, link)
        for kind, link in (
            *((b"1", str(secret)), (b"2", str(secret)), (b"2", "../../secret.png")),
            *((b"3", ""), (b"4", ""), (b"6", "")),
        )
    ]
    plain = [member(f"{part}/a/1.png", picture(7)) for part in ("train", "test")]
    dataset = import_data(root, tar(tmp_path / "x.tar", *odd, *plain), "mine", Options())
    assert dataset.info.train == 1
    assert dataset.train.images.unique().tolist() == [7]


def test_a_file_with_holes_is_not_filled_in(tmp_path: Path, refused: Refused) -> None:
    path = tmp_path / "x.tar"
    sparse = bytearray(header("a/1.png", 0, b"S"))
    sparse[386:410] = b"%011o\0%011o\0" % (0, 0)
    sparse[483:495] = b"%011o\0" % 2**31  # what it would become
    sparse[148:156] = b" " * 8
    sparse[148:156] = b"%06o\0 " % sum(sparse)
    refused(tar(path, bytes(sparse)), "'a/1.png' is kept with holes")


@pytest.mark.parametrize("name", ["a/\x1b[2J.png", "a\nb/1.png"])
def test_names_that_would_write_on_the_screen(
    name: str, tmp_path: Path, picture: Picture, refused: Refused
) -> None:
    refused(tar(tmp_path / "x.tar", member(name, picture())), "holds what is no text")


def test_names_that_are_not_utf8(tmp_path: Path, picture: Picture, refused: Refused) -> None:
    folder = tmp_path / "given" / os.fsdecode(b"\xe9")
    folder.mkdir(parents=True)
    (folder / "1.png").write_bytes(picture())
    refused(tmp_path / "given", "holds what is no text")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_zips_whose_blocks_may_become_anything(
    method: int, tmp_path: Path, refused: Refused
) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w", method) as archive:
        archive.writestr("a/1.png", bytes(1000))
    refused(tmp_path / "x.zip", "is not packed by 'deflate'")


def test_a_zip_that_claims_less_than_it_unpacks_to(
    tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/1.png", bytes(10_000_000))
    content = (tmp_path / "x.zip").read_bytes()
    (tmp_path / "x.zip").write_bytes(packing.claimed(content, 10, 24))
    refused(tmp_path / "x.zip", "a/1.png")


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_an_archive_that_unpacks_to_far_more_than_it_is(
    pack: Callable[[bytes], bytes],
    tmp_path: Path,
    refused: Refused,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "ALWAYS", 10_000)
    ending = {gzip.compress: "gz", lzma.compress: "xz"}.get(pack, "bz2")
    path = tmp_path / f"x.tar.{ending}"
    path.write_bytes(pack(member("train.txt", bytes(10_000_000)) + REST))
    refused(path, "unpacks to more than")


def test_a_gzip_that_unpacks_to_far_more_than_it_is(
    idx: Callable[..., Path], refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = idx()
    monkeypatch.setattr(limits, "ALWAYS", 10_000)
    bomb = gzip.compress(bytes(10_000_000))
    (folder / "train-images-idx3-ubyte.gz").write_bytes(bomb)
    refused(folder, "train-images-idx3-ubyte.gz unpacks to more than")


def test_pictures_that_together_take_more_than_the_memory(
    files: Files, picture: Picture, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    from heterofl_ray.data.intake import pixels

    monkeypatch.setattr(pixels, "half_of_memory", lambda: 100)  # bytes; a picture has 24
    refused(files({f"a/{n}.png": picture() for n in range(5)}), "the images take more than")


def test_a_program_that_calls_itself_a_picture(files: Files, refused: Refused) -> None:
    program = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n%%EndComments\nshowpage\n%%EOF\n"
    refused(files({"train/a/1.png": program}), "1.png is not an image of a known format")


def npy(head: str, body: bytes = bytes(8)) -> bytes:
    text = head.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


@pytest.mark.parametrize("shape", ["(1000000000,)", "(4611686018427387904, 4)", "(-1,)", "(2,)"])
def test_an_array_that_claims_more_than_the_file_holds(
    shape: str, tmp_path: Path, refused: Refused
) -> None:
    content = npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}")
    path = tmp_path / "x.npz"
    path.write_bytes(packing.plain_zip({"x.npy": content, "y.npy": content}))
    refused(path, r"x.npz is not a readable .npz file: .*claims -?\d+ bytes but holds 8")


def test_members_of_an_npz_that_are_no_arrays(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "x.npz").write_bytes(packing.plain_zip({"x": b"hello", "y": b"hello"}))
    refused(tmp_path / "x.npz", "'x' in it is no array")


def test_arrays_of_a_single_value_or_of_no_known_kind(tmp_path: Path, refused: Refused) -> None:
    path = tmp_path / "x.npz"
    for x, y, says in (
        (np.float32(1), np.zeros(5), "a single value"),
        (np.zeros((5, 4)), np.zeros(5, dtype="M8[s]"), "labels are of the kind datetime64"),
        (np.zeros((5, 4)), np.array([b"\xff"] * 5), "labels are bytes that are no text"),
        (np.zeros((5, 4)), np.full(5, 1e300), "too far from 0"),
        (np.zeros((5, 4)), np.full(5, np.inf), "too far from 0"),
    ):
        np.savez(path, x=x, y=y)
        refused(path, says)


def test_a_table_whose_rows_are_a_number_only(
    tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ALWAYS", 10_000)
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": [1.0] * 200_000, "label": [0] * 200_000}), path)
    refused(path, "x.parquet unpacks to more than")


def test_a_table_with_a_column_twice(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "x.csv").write_text("a,a,label\n1,2,0\n")
    refused(tmp_path / "x.csv", "has two columns 'a'")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"users":' * 50_000, '{"users": ["a"]}', "3"])
def test_json_that_is_no_leaf_file(text: str, files: Files, refused: Refused) -> None:
    refused(files({"train/a.json": text.encode()}), "train/a.json is not a LEAF file")


def test_numbers_beyond_all_bounds_in_json(files: Files, refused: Refused) -> None:
    drawn = {"f1": {"x": [[0.5] * 784], "y": [2**70]}}
    content = json.dumps({"users": ["f1"], "user_data": drawn}).encode()
    refused(files({"train/a.json": content}), "a.json")


def test_a_note_beside_pictures_does_not_make_them_leaf(
    root: Path, files: Files, picture: Picture, refused: Refused
) -> None:
    folder = files({"1.png": picture(), "about.json": b'{"made by": "hand"}'})
    refused(folder, "1.png lies in no class folder")
    texts = files({"other/notes.json": b"{}", "other/x.pkl": b"."}) / "other"
    refused(texts, "holds nothing that can be read")


def test_a_test_file_for_tagged_clients_names_none(files: Files, refused: Refused) -> None:
    words = b"Ann B-PER\nsleeps O\n\n" * 3
    folder = files({"a/train.conll": words, "b/train.conll": words, "test.txt": words})
    (folder / "test.txt").rename(folder.parent / "test.txt")
    refused(folder, "no client that the training part names", test=folder.parent / "test.txt")


def test_a_pipe_is_not_waited_for(tmp_path: Path, refused: Refused) -> None:
    os.mkfifo(tmp_path / "x.txt")
    os.mkfifo(tmp_path / "y.csv")
    for name in ("x.txt", "y.csv"):
        refused(tmp_path / name, "is neither a file nor a folder")
