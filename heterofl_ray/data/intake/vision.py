"""The only door to torchvision. Nothing else in the package imports it."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

import torch


def datasets() -> ModuleType:
    """torchvision.datasets, also where torchvision's compiled operators do not fit this torch."""
    _stand_in()
    import torchvision.datasets

    module: ModuleType = torchvision.datasets
    return module


@cache  # a Library's operators last as long as the object does
def _stand_in() -> torch.library.Library | None:
    """Declare the operators that ``import torchvision`` expects, only where they cannot load.

    A CPU build of torch beside the registry's CUDA build of torchvision leaves the compiled
    operators unloadable, and the import then fails on the missing 'torchvision::nms'. Data sets
    and transforms need none of these operators, so their bare declaration is enough.
    """
    if _operators_load():
        return None
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


def _operators_load() -> bool:
    """Whether torchvision's compiled operators can be loaded; loading them twice does no harm."""
    package = importlib.util.find_spec("torchvision")
    for folder in (package and package.submodule_search_locations) or ():
        for path in Path(folder).glob("_C.*"):
            try:
                torch.ops.load_library(str(path))
            except (OSError, ImportError):
                return False
    return hasattr(torch.ops.torchvision, "nms")
