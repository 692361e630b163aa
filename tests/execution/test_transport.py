"""Values on their way through Ray's object store."""

from __future__ import annotations

import copy
import pickle

import pytest

from heterofl_ray.execution.transport import INLINED_BYTES, Stored


@pytest.mark.parametrize("value", [None, {"weight": [1.0, 2.0]}, bytes(10**6)])
def test_what_is_stored_is_too_large_for_a_message_and_comes_out_as_it_was(value: object) -> None:
    assert len(pickle.dumps(Stored(value), protocol=5)) > INLINED_BYTES
    assert copy.deepcopy(Stored(value)) == value
