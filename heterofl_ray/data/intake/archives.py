"""Folders and archives alike as streams of files. Nothing is ever extracted by its own name.

Members that point outside (absolute, or with '..') mark an archive as unsafe: it is refused whole.
Links, devices and pipes are passed over. What an archive stands for is bounded by its own size, see
`limits`, and counted before it is read.
"""

from __future__ import annotations

import gzip
import lzma
import struct
import tarfile
import tempfile
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from heterofl_ray.data.intake.limits import LARGEST_FILE, Budget, unpacked
from heterofl_ray.errors import DataError, shown

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2")
_BLOCK = 1 << 20
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Of zip files. Python unpacks a block of the others at once, whatever it becomes."""
_LONGEST_HEADER = 64 * 1024
"""Bytes of a tar member's long name or other extras."""
_EXTRAS = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_DAMAGE = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, lzma.LZMAError, zlib.error),
    *(EOFError, NotImplementedError, ValueError, OverflowError, struct.error),
)


@dataclass(frozen=True)
class Entry:
    """A file in a folder or an archive; only readable while the walk stands at it."""

    name: str
    """With '/' between its parts, relative to the folder or archive."""
    place: Path
    size: int
    open: Callable[[], IO[bytes]]

    @property
    def base(self) -> str:
        """The file's own name, without '.gz'."""
        return PurePosixPath(self.name).name.removesuffix(".gz")

    def read(self, limit: int = LARGEST_FILE) -> bytes:
        """The content as it is."""
        if self.size > limit:
            raise DataError(f"{self.place}: {self.name} has {self.size} bytes, over {limit}")
        blocks, left = [], limit
        with reading(f"{self.place}: {self.name}"), self.open() as stream:
            while block := stream.read(_BLOCK):  # a size in a header is but a claim
                blocks.append(block)
                left -= len(block)
                if left < 0:
                    raise DataError(f"{self.place}: {self.name} has more than {limit} bytes")
        return b"".join(blocks)

    def copy(self, target: Path) -> None:
        """Write the content to ``target``, decompressed if it is a '.gz'."""
        where = f"{self.place}: {self.name}"
        with reading(where), self.open() as stream, target.open("wb") as file:
            packed = self.name.endswith(".gz")
            most = min(LARGEST_FILE, unpacked(self.size)) if packed else LARGEST_FILE
            budget = Budget(most, f"{where} unpacks to")
            with gzip.open(stream) if packed else nullcontext(stream) as source:
                while block := source.read(_BLOCK):
                    budget.take(len(block))
                    file.write(block)


@contextmanager
def reading(what: object) -> Iterator[None]:
    """Turns what goes wrong with a file into an error that names it."""
    try:
        yield
    except _DAMAGE as error:
        reason = str(error).partition("\n")[0].rstrip(":") or type(error).__name__
        raise DataError(f"{what} is damaged: {reason}") from None
    except OSError as error:
        raise DataError(f"{what} cannot be read: {error.strerror or error}") from None


def is_archive(path: Path) -> bool:
    return path.name.lower().endswith(ARCHIVES) and path.is_file()


def entries(place: Path) -> Iterator[Entry]:
    """The files of a folder in order of name, or of an archive as it has them; none hidden."""
    with reading(place):
        if place.is_dir():
            walk = _folder(place)
        elif place.name.lower().endswith(".zip"):
            walk = _zip(place)
        else:
            walk = _tar(place)
        whole = None if place.is_dir() else unpacked(place.stat().st_size)
        budget = None if whole is None else Budget(whole, f"{place} unpacks to")
        for entry in walk:
            if budget is not None:
                budget.take(entry.size)
            if entry.size > LARGEST_FILE:
                raise DataError(f"{place}: {entry.name} is larger than 4 GiB")
            if not any(part.startswith((".", "__MACOSX")) for part in entry.name.split("/")):
                yield entry


@contextmanager
def staged(place: Path, wanted: Callable[[str], bool]) -> Iterator[Path]:
    """A temporary folder with the files whose own names are wanted, decompressed."""
    with tempfile.TemporaryDirectory(prefix="heterofl-") as name:
        target = Path(name)
        found: dict[str, Entry] = {}
        for entry in entries(place):
            if not wanted(entry.base):
                continue
            first = found.setdefault(entry.base, entry)
            if PurePosixPath(first.name).parent != PurePosixPath(entry.name).parent:
                raise DataError(
                    f"{place} has {entry.base} twice: {first.name} and {entry.name}; "
                    "name the folder that is meant"
                )
            if first is entry:  # else both 'x' and 'x.gz' are there
                entry.copy(target / entry.base)
        yield target


def _folder(place: Path) -> Iterator[Entry]:
    for path in sorted(place.rglob("*")):
        if path.is_file():
            name = path.relative_to(place).as_posix()
            _check_text(place, name)
            yield Entry(name, place, path.stat().st_size, _opener(path))


def _opener(path: Path) -> Callable[[], IO[bytes]]:
    return lambda: path.open("rb")


def _zip(place: Path) -> Iterator[Entry]:
    with zipfile.ZipFile(place) as archive:
        for member in archive.infolist():
            _check_member(place, member.filename)
            if member.flag_bits & 1:
                raise DataError(f"{place} is encrypted; unpack it first")
            if member.compress_type not in _METHODS:
                raise DataError(f"{place} is not packed by 'deflate', as zip files are")
            if not member.is_dir():
                name = PurePosixPath(member.filename).as_posix()
                yield Entry(name, place, member.file_size, _unzipper(archive, member))


def _unzipper(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Callable[[], IO[bytes]]:
    return lambda: archive.open(member)


class _Member(tarfile.TarInfo):
    """Refuses headers that would have Python go back in the file for ever, or read without end."""

    def _block(self, count: int) -> int:
        if count < 0:
            raise tarfile.ReadError("a size below 0")
        if self.type in _EXTRAS and count > _LONGEST_HEADER:
            raise tarfile.ReadError("a header that is too long")
        rounded: int = super()._block(count)  # type: ignore[misc]
        return rounded


def _tar(place: Path) -> Iterator[Entry]:
    with tarfile.open(place, tarinfo=_Member, errorlevel=2) as archive:
        for member in archive:
            _check_member(place, member.name)
            if member.issparse():
                raise DataError(
                    f"{place}: {shown(member.name)} is kept with holes; pack it plainly"
                )
            name = PurePosixPath(member.name).as_posix()
            if member.isreg():
                yield Entry(name, place, member.size, _untarrer(archive, member))


def _untarrer(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Callable[[], IO[bytes]]:
    def stream() -> IO[bytes]:
        file = archive.extractfile(member)
        if file is None:
            raise DataError(f"{member.name} is not a plain file")
        return file

    return stream


def _check_member(place: Path, name: str) -> None:
    parts = {*PurePosixPath(name).parts, *PureWindowsPath(name).parts}
    if ".." in parts or PurePosixPath(name).is_absolute() or PureWindowsPath(name).drive:
        raise DataError(f"{place} is refused: its member {shown(name)} leads outside the archive")
    _check_text(place, name)


def _check_text(place: Path, name: str) -> None:
    """Names become classes and clients, which are shown and kept."""
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
        raise DataError(f"{place}: the name {shown(name)} holds what is no text")
