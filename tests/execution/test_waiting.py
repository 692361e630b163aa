"""A signal that comes while Ray waits is still the wish to stop, not an error of Ray's."""

from __future__ import annotations

from typing import Any

import pytest
import ray

from heterofl_ray.errors import Interrupted
from heterofl_ray.execution.ray_pool import _wait


def test_a_stop_inside_rays_own_code_comes_out_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(*_: Any, **__: Any) -> Any:
        raise SystemError("returned a result with an exception set") from Interrupted(143)

    monkeypatch.setattr(ray, "wait", wait)
    with pytest.raises(Interrupted) as stop:
        _wait([], 1, 0.0)
    assert stop.value.code == 143


def test_other_errors_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(*_: Any, **__: Any) -> Any:
        raise SystemError("something else")

    monkeypatch.setattr(ray, "wait", wait)
    with pytest.raises(SystemError, match="something else"):
        _wait([], 1, 0.0)
