"""Archives by hand: names that lead elsewhere, links, devices, sizes that are not so."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Mapping

from hypothesis import strategies as st

from .damage import damaged

_NAMES = st.sampled_from(
    [
        *("../bystander.txt", "/bystander.txt", "a/../../evil.png", "..\\evil.png", "C:/evil.png"),
        *("C:evil", "./a/1.png", "a//1.png", "train/a/1.png", "a/\x1b[2J.png", "train.txt", ""),
        *(
            "a" * 300 + "/1.png",
            "a/" * 150 + "1.png",
            ".hidden",
            "a/1.png",
            "\u202egnp.exe",
            "a\nb/1.png",
        ),
    ]
)
_TYPES = st.sampled_from([tarfile.REGTYPE, *(bytes((n,)) for n in b"1234567xgLKSVZ\0")])
_SIZES = st.sampled_from([0, 1, 511, 512, 2**20, 2**32, 2**40, -1, -512, -(2**40)])


def crc(content: bytes) -> int:
    return zlib.crc32(content)


def _number(value: int, width: int) -> bytes:
    """As GNU tar writes numbers that octal digits have no room for."""
    if 0 <= value < 8 ** (width - 1):
        return b"%0*o\0" % (width - 1, value)
    return (b"\x80" if value >= 0 else b"\xff") + (value % 256 ** (width - 1)).to_bytes(
        width - 1, "big"
    )


def header(name: str, size: int, kind: bytes, link: str = "") -> bytes:
    """A tar header with the right checksum."""
    fields = b"".join(
        [
            name.encode("utf-8", "surrogateescape")[:100].ljust(100, b"\0"),
            b"0000644\0" + b"0000000\0" * 2,
            _number(size, 12),
            b"00000000000\0",
            b" " * 8,
            kind,
            link.encode()[:100].ljust(100, b"\0"),
            b"ustar\x0000" + bytes(64) + b"0000000\0" * 2,
        ]
    ).ljust(512, b"\0")
    return fields[:148] + b"%06o\0 " % sum(fields) + fields[156:]


def _tar_member(
    name: str, content: bytes, size: int | None = None, kind: bytes = b"0", link: str = ""
) -> bytes:
    head = header(name, len(content) if size is None else size, kind, link)
    return head + content + bytes(-len(content) % 512)


def pax(values: Mapping[str, str]) -> bytes:
    lines = b""
    for key, value in values.items():
        tail = f" {key}={value}\n".encode()
        lines += b"%d" % (len(tail) + 2) + tail
    return _tar_member("pax", lines, kind=b"x")


@st.composite
def tars(draw: st.DrawFn, files: Mapping[str, bytes]) -> bytes:
    members = [_tar_member(name, content) for name, content in files.items()]
    for _ in range(draw(st.integers(0, 2))):
        member = _tar_member(
            draw(_NAMES),
            draw(st.binary(max_size=40)),
            draw(st.none() | _SIZES),
            draw(_TYPES),
            draw(st.sampled_from(["", "../bystander.txt", "/etc/passwd", "a/1.png"])),
        )
        if draw(st.integers(0, 3)) == 0:
            keys = st.sampled_from(
                ["path", "size", "linkpath", "GNU.sparse.map", "GNU.sparse.size", "hdrcharset"]
            )
            values = _NAMES | st.sampled_from(["-512", "9" * 30, "0,99999999", "x", "BINARY"])
            member = pax(draw(st.dictionaries(keys, values, max_size=2))) + member
        members.insert(draw(st.integers(0, len(members))), member)
    return b"".join(members) + bytes(1024)


@st.composite
def zips(draw: st.DrawFn, files: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    kinds = st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED])
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(_zip_name(name), content, draw(kinds))
        for name in draw(st.lists(_NAMES, max_size=1)):
            method = draw(
                st.sampled_from([zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_DEFLATED])
            )
            archive.writestr(
                _zip_name(name) or "x", bytes(draw(st.sampled_from([0, 9, 5000]))), method
            )
    content = stream.getvalue()
    claim = draw(st.none() | _SIZES)
    if claim is not None:  # in the directory, where readers look
        content = claimed(content, claim % 2**32, draw(st.sampled_from([8, 10, 20, 24, 42])))
    return draw(damaged(content, most=2)) if draw(st.integers(0, 2)) == 0 else content


def plain_zip(files: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def _zip_name(name: str) -> str:
    return name.encode("utf-8", "replace").decode()


def claimed(content: bytes, value: int, field: int) -> bytes:
    """Another number in the first entry of the zip's directory: flags, method, sizes or offset."""
    place = content.find(b"PK\x01\x02")
    new = struct.pack("<H", value % 65536) if field < 12 else struct.pack("<I", value)
    return content[: place + field] + new + content[place + field + len(new) :]


_PACK = {
    ".tar": bytes,
    ".tar.gz": gzip.compress,
    ".tar.xz": lzma.compress,
    ".tar.bz2": bz2.compress,
}


@st.composite
def archives(draw: st.DrawFn, files: Mapping[str, bytes]) -> dict[str, bytes]:
    ending = draw(st.sampled_from([".zip", *_PACK]))
    if ending == ".zip":
        return {"given.zip": draw(zips(files))}
    content = draw(tars(files))
    if draw(st.integers(0, 3)) == 0:
        content = draw(damaged(content, most=2))
    content = _PACK[ending](content)
    if draw(st.integers(0, 5)) == 0:
        content = draw(damaged(content, most=2))
    return {f"given{ending}": content}
