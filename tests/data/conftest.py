"""Small files in the layouts people have on disk, made anew for each test."""

from __future__ import annotations

import gzip
import io
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from heterofl_ray.data.intake.importing import import_data
from heterofl_ray.data.intake.readers.contract import Options
from heterofl_ray.errors import DataError

MakeFiles = Callable[[Mapping[str, bytes]], Path]
MakePicture = Callable[..., bytes]
MakeIdx = Callable[..., Path]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty data folder."""
    return tmp_path / "data"


@pytest.fixture
def files(tmp_path: Path) -> MakeFiles:
    """Makes a folder with these files."""

    def make(contents: Mapping[str, bytes]) -> Path:
        folder = tmp_path / "given"
        for name, content in contents.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        return folder

    return make


@pytest.fixture
def picture() -> MakePicture:
    """Makes a PNG of one grey value, or of one colour."""

    def make(
        value: int | tuple[int, int, int] = 0,
        size: tuple[int, int] = (4, 6),
        mode: str = "",
        format: str = "PNG",
    ) -> bytes:
        mode = mode or ("L" if isinstance(value, int) else "RGB")
        stream = io.BytesIO()
        Image.new(mode, (size[1], size[0]), value).save(stream, format)
        return stream.getvalue()

    return make


@pytest.fixture
def idx_bytes() -> Callable[[np.ndarray], bytes]:
    """Makes the content of an IDX file."""

    def make(array: np.ndarray) -> bytes:
        header = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
        return header + array.astype(np.uint8).tobytes()

    return make


@pytest.fixture
def idx(tmp_path: Path, idx_bytes: Callable[[np.ndarray], bytes]) -> MakeIdx:
    """Makes a folder of IDX files: 8 training and 4 test images of 28x28 in two classes."""

    def make(
        folder: str = "idx",
        prefix: str = "",
        test: str = "t10k",
        first: int = 0,
        packed: bool = True,
    ) -> Path:
        place = tmp_path / folder
        place.mkdir(parents=True, exist_ok=True)
        for part, count in (("train", 8), (test, 4)):
            images = np.arange(count * 784).reshape(count, 28, 28) % 251
            labels = np.arange(count) % 2 + first
            for name, array in (("images-idx3", images), ("labels-idx1", labels)):
                content = idx_bytes(array)
                path = place / f"{prefix}{part}-{name}-ubyte{'.gz' if packed else ''}"
                path.write_bytes(gzip.compress(content) if packed else content)
        return place

    return make


@pytest.fixture
def refused(root: Path) -> Callable[..., None]:
    """Checks that an import is refused in one line that says this, and leaves nothing behind."""

    def check(path: Path, says: str, **options: Any) -> None:
        with pytest.raises(DataError, match=says) as caught:
            import_data(root, path, "mine", Options(**options))
        assert "\n" not in str(caught.value)
        assert not root.exists() or not list(root.iterdir())

    return check
