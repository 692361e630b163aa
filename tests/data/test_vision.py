"""torchvision comes in through one door, which mends only what is broken."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch

import heterofl_ray
from heterofl_ray.data.intake import vision

PACKAGE = Path(heterofl_ray.__file__).parent


def test_nothing_else_imports_torchvision() -> None:
    importing = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            if any(name.split(".")[0] == "torchvision" for name in names):
                importing.add(path.relative_to(PACKAGE).as_posix())
    assert importing == {"data/intake/vision.py"}


def test_data_sets_can_be_had() -> None:
    assert vision.datasets().CIFAR10.__name__ == "CIFAR10"


@pytest.fixture
def defined(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the guard declares, without declaring it."""
    declared: list[str] = []

    class Library:
        def __init__(self, namespace: str, kind: str) -> None:
            assert (namespace, kind) == ("torchvision", "FRAGMENT")

        def define(self, schema: str) -> None:
            declared.append(schema.partition("(")[0])

    monkeypatch.setattr(torch.library, "Library", Library)
    return declared


def test_nothing_is_declared_where_the_operators_load(
    defined: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vision, "_operators_load", lambda: True)
    assert vision._stand_in.__wrapped__() is None
    assert defined == []


def test_stand_ins_are_declared_where_they_do_not(
    defined: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vision, "_operators_load", lambda: False)
    assert vision._stand_in.__wrapped__() is not None
    assert defined == ["nms", "qnms"]


def test_operators_that_cannot_load_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: str) -> None:
        assert Path(path).name.startswith("_C.")
        raise OSError("undefined symbol")

    monkeypatch.setattr(torch.ops, "load_library", fail)
    assert not vision._operators_load()
