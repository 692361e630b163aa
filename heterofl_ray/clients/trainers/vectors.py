"""The vectors that steps are compiled for: those that the processor says it has.

Torch's compiler would compile code for each kind of them and try it, for ten seconds in a process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch

from heterofl_ray.clients.trainers.lanes import VECTOR

# What they take other numbers than float32 and float64 with is of no use here.
_FOR_OTHER_NUMBERS = ("_is_avx512_bf16_supported", "_is_vnni_supported")


@contextmanager
def taken_at_its_word(images: bool) -> Iterator[dict[str, Any]]:
    """Settings of the compiler. Images' few channels would leave half of the longest empty."""
    settings: dict[str, Any] = {"cpp.vec_isa_ok": True}
    if images and torch.backends.cpu.get_cpu_capability() == "AVX512":
        settings["cpp.simdlen"] = 32 * VECTOR
    with ExitStack() as stack:
        for name in _FOR_OTHER_NUMBERS:
            stack.enter_context(patch.object(torch.cpu, name, lambda: False, create=True))
        yield settings
