"""Images in folders named by their class, on disk or in an archive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from heterofl_ray.data.intake.archives import entries
from heterofl_ray.data.intake.pixels import decode_all
from heterofl_ray.data.intake.readers.contract import Array, Labelled, Options, Part
from heterofl_ray.errors import DataError

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
_LARGEST = 256 * 1024**2  # bytes of one encoded image
_TESTS = ("test", "val", "valid", "validation")
_Paths = list[tuple[str, ...]]


def is_image(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def read(place: Path, options: Options) -> Labelled:
    """train/CLASS/… and test/CLASS/…, or only CLASS/…; `options.test` may name the test folder.

    Without a folder 'test', 'val' or 'valid' is for testing; beside it, they are left out.
    """
    paths, images = _decoded(place, options)
    splits = {path[0] for path in paths}
    if options.test is not None:
        test_paths, test_images = _decoded(options.test, options)
        return Labelled(_part(paths, images), _part(test_paths, test_images))
    if "train" not in splits:
        return Labelled(_part(paths, images))
    test = next((name for name in _TESTS if name in splits), None)
    return Labelled(
        _of_split("train", paths, images),
        _of_split(test, paths, images) if test else None,
    )


def _decoded(place: Path, options: Options) -> tuple[_Paths, Array]:
    """Every image's path without the folders that all share, sorted, and the images."""
    names, images = decode_all(_files(place), options.size)
    if not names:
        raise DataError(f"{place} has no images ({', '.join(SUFFIXES)})")
    order = sorted(range(len(names)), key=names.__getitem__)
    paths = [tuple(names[number].split("/")) for number in order]
    while len({path[0] for path in paths}) == 1 and min(map(len, paths)) > 2:
        paths = [path[1:] for path in paths]
    shallow = next((path for path in paths if len(path) < 2), None)
    if shallow is not None:
        raise DataError(
            f"{place}: {shallow[0]} lies in no class folder, such as CLASS/{shallow[0]}"
        )
    return paths, images if order == sorted(order) else images[order]


def _files(place: Path) -> Iterator[tuple[str, bytes]]:
    for entry in entries(place):
        if is_image(entry.name):
            yield entry.name, entry.read(_LARGEST)


def _of_split(split: str, paths: _Paths, images: Array) -> Part:
    mine = [number for number, path in enumerate(paths) if path[0] == split]
    inner = [paths[number][1:] for number in mine]
    shallow = next((path for path in inner if len(path) < 2), None)
    if shallow is not None:
        raise DataError(f"{split}/{shallow[0]} lies in no class folder")
    return _part(inner, images[mine])


def _part(paths: _Paths, images: Array) -> Part:
    return Part(images, np.array([path[0] for path in paths], dtype=str))
