"""IDX files in MNIST's layout, read by torchvision after their headers are checked."""

from __future__ import annotations

import math
import string
import struct
from pathlib import Path

from heterofl_ray.data.intake.archives import entries, staged
from heterofl_ray.data.intake.readers.contract import Labelled, Options, Part
from heterofl_ray.data.intake.vision import datasets
from heterofl_ray.errors import DataError

IMAGES, LABELS = "-images-idx3-ubyte", "-labels-idx1-ubyte"
_BYTES = 0x08  # the header's code for unsigned bytes
_EMNIST = "emnist-"


def is_idx(base: str) -> bool:
    return base.endswith(f"train{IMAGES}")


def read(place: Path, options: Options) -> Labelled:
    """Training and test images of an IDX folder or archive."""
    prefix = _prefix(place) if options.prefix is None else options.prefix
    parts = [f"{prefix}train", f"{prefix}test" if prefix.startswith(_EMNIST) else f"{prefix}t10k"]
    wanted = [part + suffix for part in parts for suffix in (IMAGES, LABELS)]
    with staged(place, wanted.__contains__) as stage:
        missing = [name for name in wanted if not (stage / name).is_file()]
        if missing:
            raise DataError(f"{place} lacks {', '.join(missing)}")
        train, test = (_part(stage, part, place) for part in parts)
    if not prefix.startswith(_EMNIST):
        return Labelled(train, test)
    # EMNIST's images lie on their side.
    upright = [Part(part.images.swapaxes(1, 2), part.labels) for part in (train, test)]
    letters = ("", *string.ascii_lowercase) if prefix == "emnist-letters-" else ()
    return Labelled(upright[0], upright[1], letters)


def _prefix(place: Path) -> str:
    """How the IDX files in a place begin: '' for MNIST, 'emnist-letters-' and the like."""
    ending = f"train{IMAGES}"
    found = {entry.base.removesuffix(ending) for entry in entries(place) if is_idx(entry.base)}
    if len(found) != 1:
        raise DataError(
            f"{place} has {len(found)} sets of IDX files ({', '.join(sorted(found))}); "
            "put one into a folder of its own"
        )
    return found.pop()


def _part(stage: Path, part: str, place: Path) -> Part:
    images, labels = (stage / (part + suffix) for suffix in (IMAGES, LABELS))
    for path, axes in ((images, 3), (labels, 1)):
        _check_header(path, axes, place)
    mnist = datasets().mnist
    pixels = mnist.read_image_file(str(images)).numpy()
    classes = mnist.read_label_file(str(labels)).numpy()
    if len(pixels) != len(classes):
        raise DataError(
            f"{place}: {images.name} has {len(pixels)} images, "
            f"but {labels.name} has {len(classes)} labels"
        )
    return Part(pixels, classes)


def _check_header(path: Path, axes: int, place: Path) -> None:
    """The sizes that the header claims must be the bytes that follow it."""
    with path.open("rb") as file:
        header = file.read(4 * (axes + 1))
    if len(header) < 4 * (axes + 1) or header[:4] != bytes((0, 0, _BYTES, axes)):
        raise DataError(f"{place}: {path.name} is not an IDX file of bytes with {axes} axes")
    claimed = math.prod(struct.unpack(f">{axes}I", header[4:]))
    held = path.stat().st_size - len(header)
    if claimed != held or not held:
        raise DataError(f"{place}: {path.name} claims {claimed} bytes but holds {held}")
