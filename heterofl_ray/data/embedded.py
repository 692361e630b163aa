"""Data sets that come with installed packages: nothing to download, for trying things out."""

from __future__ import annotations

import platform
import re

import numpy as np

from heterofl_ray.data.info import DataInfo
from heterofl_ray.data.intake.drafting import statistics
from heterofl_ray.data.store import Draft
from heterofl_ray.data.words import encode


def digits() -> Draft:
    """scikit-learn's 1,797 digits; every fifth is for testing."""
    import sklearn.datasets

    bunch = sklearn.datasets.load_digits()
    # Grey values 0 to 16 become 0 to 255.
    images = np.round(bunch.images * (255 / 16)).astype(np.uint8)[:, None]
    labels = bunch.target.astype(np.int64)
    testing = np.arange(len(labels)) % 5 == 4
    mean, std = statistics(images[~testing])
    info = DataInfo(
        name="digits",
        kind="images",
        train=int((~testing).sum()),
        test=int(testing.sum()),
        shape=(1, 8, 8),
        classes=tuple(str(digit) for digit in range(10)),
        mean=mean,
        std=std,
        origin=f"scikit-learn {sklearn.__version__}",
    )
    return Draft(
        info,
        {
            "train": {"image": images[~testing], "label": labels[~testing]},
            "test": {"image": images[testing], "label": labels[testing]},
        },
    )


def pydocs() -> Draft:
    """The help topics of the running Python; every tenth topic is for testing."""
    from pydoc_data.topics import topics

    texts = [re.findall(r"\w+|[^\w\s]", topics[name].lower()) for name in sorted(topics)]
    train = [word for place, text in enumerate(texts) if place % 10 != 9 for word in text]
    test = [word for place, text in enumerate(texts) if place % 10 == 9 for word in text]
    return encode("pydocs", train, test, origin=f"Python {platform.python_version()}")
