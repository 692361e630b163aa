"""From what a reader gives to a data set ready to be written: channels first, labels numbered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from heterofl_ray.data.info import DataInfo
from heterofl_ray.data.intake.readers.contract import Array, Labelled, Part, Words
from heterofl_ray.data.intake.splitting import last_tenth, without_every_fifth
from heterofl_ray.data.store import Draft
from heterofl_ray.data.words import encode
from heterofl_ray.errors import DataError

_CHANNELS = (1, 3)
_TOGETHER = 4096  # examples whose statistics are taken at once


def text_draft(name: str, words: Words, *, origin: str) -> Draft:
    train, test = (words.train, words.test) if words.test is not None else last_tenth(words.train)
    return encode(name, train, test, origin=origin)


def labelled_draft(name: str, given: Labelled, *, origin: str) -> Draft:
    """Images or features; labels, super-classes and clients numbered by the training part."""
    train = _plain(given.train, "training")
    if given.test is None:
        train, test = without_every_fifth(train)
    else:
        test = _plain(given.test, "test")
    if train.images.shape[1:] != test.images.shape[1:] or train.images.dtype != test.images.dtype:
        raise DataError(
            f"the test part has {_shown(test.images)}, but the training part {_shown(train.images)}"
        )
    columns: dict[str, dict[str, Array]] = {
        "train": {"image": train.images},
        "test": {"image": test.images},
    }
    names: dict[str, tuple[str, ...]] = {}
    for column, values, what in (
        ("label", (train.labels, test.labels), "class"),
        ("coarse", (train.coarse, test.coarse), "super-class"),
        ("client", (train.clients, test.clients), "client"),
    ):
        if values[0] is None:
            continue
        if values[1] is None:
            raise DataError(f"the training part names each example's {what}, the test part none")
        texts, *numbers = numbered(values[0], values[1], what)
        columns["train"][column], columns["test"][column] = numbers
        names[column] = texts
    mean, std = statistics(train.images)
    info = DataInfo(
        name=name,
        kind="images",
        train=len(train.labels),
        test=len(test.labels),
        shape=train.images.shape[1:],
        dtype=str(train.images.dtype),
        classes=_named(names["label"], given.classes),
        coarse=_named(names.get("coarse", ()), given.coarse),
        mean=mean,
        std=std,
        clients=len(names.get("client", ())),
        origin=origin,
    )
    return Draft(info, columns)


def statistics(images: Array) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, or feature; bytes count as 0 to 1.

    Those of images are rounded as papers print them. What never changes gets the deviation 1.
    """
    scale = 255 if images.dtype == np.uint8 else 1
    axes = (0, *range(2, images.ndim))
    count = images.size // images.shape[1]
    mean = sum(block.sum(axis=axes) for block in _blocks(images)) / count
    centre = np.reshape(mean, (-1,) + (1,) * (images.ndim - 2))
    squares = sum(((block - centre) ** 2).sum(axis=axes) for block in _blocks(images))
    std = np.sqrt(squares / count)
    digits = 4 if images.ndim > 2 else 17
    return (
        tuple(round(float(value), digits) for value in mean / scale),
        tuple(round(float(value), digits) or 1.0 for value in std / scale),
    )


def _blocks(images: Array) -> Iterator[Array]:
    """All examples, so many at once that their exact values do not fill the memory."""
    for start in range(0, len(images), _TOGETHER):
        yield images[start : start + _TOGETHER].astype(np.float64)


def _plain(part: Part, what: str) -> Part:
    """Channels first, bytes or float32; as many labels as images."""
    if not part.images.ndim:
        raise DataError(f"the {what} part has a single value where examples are needed")
    labels = _plain_labels(part.labels, f"the {what} part's labels")
    beside = {
        name: None if values is None else _plain_labels(values, f"the {what} part's {name}")
        for name, values in (("clients", part.clients), ("coarse", part.coarse))
    }
    for name, values in (("labels", labels), *beside.items()):
        if values is not None and values.shape != (len(part.images),):
            held = len(values) if values.ndim == 1 else f"an array of shape {values.shape} as"
            raise DataError(f"the {what} part has {len(part.images)} examples but {held} {name}")
    if not len(labels):
        raise DataError(f"the {what} part has no examples")
    images = _plain_images(part.images, what)
    return Part(images, labels, beside["clients"], beside["coarse"])


def _plain_images(images: Array, what: str) -> Array:
    if images.dtype.kind not in "buif" or images.ndim not in (2, 3, 4) or not images.size:
        raise DataError(
            f"the {what} part has {_shown(images)}; "
            "features, or images of HxW, HxWxC or CxHxW, are needed"
        )
    bytes_ = images.ndim > 2 and images.dtype.kind != "f" and _fits_bytes(images)
    plain = images.astype(np.uint8 if bytes_ else np.float32, copy=False)
    if plain.dtype == np.float32 and not np.isfinite(plain).all():
        raise DataError(f"the {what} part has values that are not finite numbers")
    if plain.ndim < 4:
        return plain if plain.ndim == 2 else plain[:, None]
    if plain.shape[1] in _CHANNELS:
        return plain
    if plain.shape[3] not in _CHANNELS:
        raise DataError(f"the {what} part has {_shown(images)}; images have 1 or 3 channels")
    return np.ascontiguousarray(plain.transpose(0, 3, 1, 2))


def _fits_bytes(images: Array) -> bool:
    return images.dtype == np.uint8 or (bool(images.min() >= 0) and bool(images.max() <= 255))


def _plain_labels(labels: Array, what: str) -> Array:
    """Texts, or whole numbers."""
    if labels.dtype.kind in "US":
        try:
            texts = labels.astype(str)
            for text in set(texts.ravel().tolist()):
                text.encode()  # what no file and no screen could show
        except ValueError:
            raise DataError(f"{what} are bytes that are no text") from None
        return texts
    if labels.dtype.kind not in "buif":
        raise DataError(f"{what} are of the kind {labels.dtype}")
    if labels.dtype.kind == "f" and not np.equal(labels, np.round(labels)).all():
        raise DataError(f"{what} are neither whole numbers nor texts")
    if labels.size and not (abs(float(labels.min())) < 2**62 and abs(float(labels.max())) < 2**62):
        raise DataError(f"{what} go from {labels.min()} to {labels.max()}: too far from 0")
    return labels.astype(np.int64)


def numbered(train: Array, test: Array, what: str) -> tuple[tuple[str, ...], Array, Array]:
    """The training part's distinct values as texts, in order, and both parts by their place."""
    if train.dtype.kind != test.dtype.kind:
        train, test = train.astype(str), test.astype(str)
    values, inverse = np.unique(train, return_inverse=True)
    places = np.minimum(np.searchsorted(values, test), len(values) - 1)
    unknown = np.unique(test[values[places] != test])
    if len(unknown):
        shown = ", ".join(str(value) for value in unknown[:5])
        raise DataError(f"the test part has a {what} that the training part lacks: {shown}")
    texts = [str(value) for value in values]
    order = list(range(len(texts)))
    if all(text.isdecimal() for text in texts):
        order.sort(key=lambda place: int(texts[place]))
    rank = np.argsort(np.array(order, dtype=np.int64))
    return tuple(texts[place] for place in order), rank[inverse], rank[places]


def _named(labels: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Names for labels that are numbers, where names were given for all of them."""
    if not names or not all(label.isdecimal() and int(label) < len(names) for label in labels):
        return tuple(labels)
    return tuple(names[int(label)] for label in labels)


def _shown(images: Array) -> str:
    return f"{images.dtype} of shape {images.shape[1:]}"
