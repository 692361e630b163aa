"""Encoded pictures to arrays of bytes: all grey or all colour, all of one size."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from heterofl_ray.data.intake.limits import Budget, half_of_memory
from heterofl_ray.data.intake.showing import counted
from heterofl_ray.errors import DataError

Pixels = NDArray[np.uint8]
LARGEST = 64 * 1024**2
_TOGETHER = 256  # pictures decoded between two looks at the stream: bounds what waits in memory
_THUMBNAIL = 16 * 1024
# Only these: others of the image library run programs on what they read.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
_GREY = ("1", "L", "LA", "La")
_DEEP = ("I", "F", "I;16", "I;16L", "I;16B", "I;16N")


def decode_all(
    files: Iterable[tuple[str, bytes]], size: tuple[int, int] | None
) -> tuple[list[str], Pixels]:
    """Names and (N, 1 or 3, H, W) of all pictures, in the order given.

    One colour picture makes all of them colour. Without ``size`` all must be equally large.
    """
    names: list[str] = []
    pictures: list[Pixels] = []
    budget = Budget(half_of_memory(), "the images take")
    with warnings.catch_warnings(), ThreadPoolExecutor(os.cpu_count()) as pool:
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        for batch in _batches(counted(files, "images")):
            # Threads gain nothing on thumbnails: handing one over takes longer than decoding it.
            large = sum(len(content) for _, content in batch) > _THUMBNAIL * len(batch)
            decode = partial(_decode, size=size, budget=budget)
            for (name, _), picture in zip(
                batch, pool.map(decode, batch) if large else map(decode, batch), strict=True
            ):
                names.append(name)
                pictures.append(picture)
                _check_size(name, picture, names[0], pictures[0])
    return names, _stack(pictures)


def _batches(files: Iterable[tuple[str, bytes]]) -> Iterator[list[tuple[str, bytes]]]:
    stream = iter(files)
    while batch := list(islice(stream, _TOGETHER)):
        yield batch


def _decode(file: tuple[str, bytes], size: tuple[int, int] | None, budget: Budget) -> Pixels:
    name, content = file
    try:
        with Image.open(BytesIO(content), formats=_FORMATS) as image:
            if image.width * image.height > LARGEST:
                raise DataError(f"{name} is {image.height}x{image.width}: over 64 megapixels")
            if image.mode in _DEEP:
                raise DataError(f"{name} has more than 8 bits a channel; convert it to 8 bits")
            height, width = size or (image.height, image.width)
            budget.take(height * width * (1 if image.mode in _GREY else 3))
            plain = image.convert("L" if image.mode in _GREY else "RGB")
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        raise DataError(f"{name} is over 64 megapixels") from None
    except UnidentifiedImageError:
        raise DataError(f"{name} is not an image of a known format") from None
    except DataError:
        raise
    except Exception as error:  # noqa: BLE001 - decoders of damaged files raise whatever they meet
        raise DataError(f"{name} is not a readable image: {str(error)[:200]}") from None
    if size is not None and plain.size != (size[1], size[0]):
        plain = plain.resize((size[1], size[0]), Image.Resampling.BILINEAR)
    pixels = np.asarray(plain)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def _check_size(name: str, picture: Pixels, first_name: str, first: Pixels) -> None:
    (height, width), (wanted_height, wanted_width) = picture.shape[1:], first.shape[1:]
    if (height, width) != (wanted_height, wanted_width):
        raise DataError(
            f"{name} is {height}x{width}, but {first_name} is {wanted_height}x{wanted_width}; "
            f"--size {wanted_height}x{wanted_width} would scale all images"
        )


def _stack(pictures: list[Pixels]) -> Pixels:
    """One array of all; grey is repeated where others have colour."""
    if not pictures:
        return np.empty((0, 1, 1, 1), dtype=np.uint8)
    channels = max(len(picture) for picture in pictures)
    stacked = np.empty((len(pictures), channels, *pictures[0].shape[1:]), dtype=np.uint8)
    for place, picture in enumerate(pictures):
        stacked[place] = picture
    return stacked
