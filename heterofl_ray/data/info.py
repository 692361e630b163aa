"""What is written about a stored data set. Importing this does not import torch."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heterofl_ray.data.places import check_folder, check_name
from heterofl_ray.errors import DataError, shown
from heterofl_ray.plain_files import read_json


@dataclass(frozen=True, kw_only=True)
class DataInfo:
    """What a data set holds."""

    name: str
    kind: str
    """'images' (features count as images of shape (n,)), 'text' or 'sequences'."""
    target: str = ""
    """Sequences: what each has, a 'class', a 'number' or 'tags', one for every word."""
    metric: str = ""
    """Sequences: the score by which models are compared."""
    train: int
    test: int
    """Examples; for text, tokens."""
    shape: tuple[int, ...] = ()
    dtype: str = "uint8"
    classes: tuple[str, ...] = ()
    coarse: tuple[str, ...] = ()
    """Super-classes, where the data has a column of them."""
    vocabulary: int = 0
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    augment: bool = False
    """Training images are padded by 4, cropped at random and mirrored."""
    clients: int = 0
    """Clients named by the data itself; 0: none."""
    origin: str = ""
    bytes: int = 0

    @property
    def outputs(self) -> int:
        """Classes, or words of the vocabulary; 1 for a number."""
        if self.target == "number":
            return 1
        return self.vocabulary if self.kind == "text" else len(self.classes)

    @property
    def group_names(self) -> tuple[str, ...]:
        """The kinds of examples that the column of labels tells apart."""
        if self.target == "number":
            return ("all",)
        if self.target == "tags":  # no entity, or the kind of the first one
            return tuple(dict.fromkeys(name.partition("-")[2] or "none" for name in self.classes))
        return self.classes

    @property
    def groups(self) -> int:
        return len(self.group_names)

    def to_dict(self) -> dict[str, Any]:
        plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return plain


def read_info(root: Path, name: str) -> tuple[DataInfo, Path]:
    """What is written about a data set, and the folder of its files."""
    check_name(name)
    path = root / f"{name}.json"
    if not path.exists():
        raise DataError(f"data set {name!r} is not in {root}")
    try:
        values = read_json(path)
        folder = check_folder(values.pop("folder"))
        lists = {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
        info = DataInfo(**{**values, **lists})
        _check_types(info)
        return info, root / folder
    except (DataError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"{path} is damaged ({error}); remove it and import again") from None


_KINDS: dict[str, tuple[type, Any]] = {
    "tuple[int, ...]": (tuple, int),
    "tuple[float, ...]": (tuple, (int, float)),
    "tuple[str, ...]": (tuple, str),
    "str": (str, object),
    "int": (int, object),
    "bool": (bool, object),
}


def _check_types(info: DataInfo) -> None:
    for entry in dataclasses.fields(info):
        value: Any = getattr(info, entry.name)
        whole, inner = _KINDS[str(entry.type)]
        items = value if isinstance(value, tuple) else ()
        below = type(value) is int and value < 0
        if type(value) is not whole or below or not all(isinstance(x, inner) for x in items):
            raise ValueError(f"{entry.name}={shown(value)}")
