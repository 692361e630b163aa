"""Models that are built for their shapes alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


class _Undrawn(TorchFunctionMode):
    """Leaves out what would import torch's compiler, for two seconds, to draw nothing at all."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if func in (Tensor.normal_, nn.init.normal_):
            return args[0] if args else named["tensor"]
        return func(*args, **named)


@contextmanager
def shapes_only() -> Iterator[None]:
    """What is built within has shapes and no numbers."""
    with torch.device("meta"), _Undrawn():
        yield
