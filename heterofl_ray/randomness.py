"""Random streams keyed by (seed, purpose, round, client).

Every draw of a run comes from a stream that its key alone decides, so nothing depends on the order
of calls, on how many workers there are or on which of them ran a client.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class Streams:
    """All random streams of one run."""

    seed: int

    def numpy(self, purpose: str, round_number: int = 0, client: int = 0) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(self._sequence(purpose, round_number, client)))

    def torch(self, purpose: str, round_number: int = 0, client: int = 0) -> torch.Generator:
        """A CPU generator, whatever the device: the same draws on every machine."""
        generator = torch.Generator()
        generator.manual_seed(self.key(purpose, round_number, client))
        return generator

    def key(self, purpose: str, round_number: int = 0, client: int = 0) -> int:
        """A 63-bit number of its own for each key."""
        state = self._sequence(purpose, round_number, client).generate_state(1, np.uint64)
        return int(state[0]) >> 1

    @contextmanager
    def layers(self, purpose: str, round_number: int = 0, client: int = 0) -> Iterator[None]:
        """Key what torch draws by itself: initial weights and dropout."""
        on_gpus = torch.cuda.is_available()
        # to put off the seeds of GPUs that are not there takes torch longer than all the rest
        seed = torch.manual_seed if on_gpus else torch.default_generator.manual_seed
        with torch.random.fork_rng(devices=None if on_gpus else ()):
            seed(self.key(purpose, round_number, client))
            yield

    def _sequence(self, purpose: str, round_number: int, client: int) -> np.random.SeedSequence:
        name = int.from_bytes(hashlib.blake2b(purpose.encode(), digest_size=8).digest(), "little")
        return np.random.SeedSequence(self.seed, spawn_key=(name, round_number, client))
