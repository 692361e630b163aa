"""Compiled steps on disk: code that is executed, so nobody else's."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from heterofl_ray.clients.trainers import packages
from heterofl_ray.errors import ConfigError


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HETEROFL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "steps"


def loosen(place: Path) -> None:
    place.mkdir(parents=True)
    place.chmod(0o770)


def redirect(place: Path) -> None:
    elsewhere = place.parents[1] / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    place.parent.mkdir()
    place.symlink_to(elsewhere)


def occupy(place: Path) -> None:
    place.parent.mkdir()
    place.touch()


@pytest.mark.parametrize("plant", [loosen, redirect, occupy])
def test_a_folder_that_others_may_have_filled_is_refused(
    plant: Callable[[Path], None], steps: Path
) -> None:
    plant(steps)
    with pytest.raises(ConfigError, match=r"HETEROFL_CACHE=.*(not yours alone|cannot be made)"):
        packages.path_of("recipe", 1)


def test_so_is_one_that_belongs_to_another_user(
    steps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps.mkdir(mode=0o700, parents=True)
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(ConfigError, match="holds code that is executed, and is not yours alone"):
        packages.path_of("recipe", 1)


def test_one_that_is_made_is_its_owners_alone(steps: Path) -> None:
    before = os.umask(0)
    try:
        assert packages.path_of("recipe", 1).parent == steps
    finally:
        os.umask(before)
    assert stat.S_IMODE(steps.stat().st_mode) == 0o700
    assert packages.path_of("recipe", 1).parent == steps  # a second time, too


def test_processors_that_know_other_instructions_share_no_code(
    steps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert packages._instructions().strip(), "nothing is known of this processor"
    here = packages.path_of("recipe", 1)
    assert packages.path_of("recipe", 1) == here
    monkeypatch.setattr(packages, "_instructions", lambda: "flags: of a newer one")
    assert packages.path_of("recipe", 1) != here


@pytest.mark.slow
def test_nothing_is_tried_before_nor_left_behind_and_what_is_drawn_is_kept(
    steps: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No code for kinds of vectors, to see if it runs; no folder for each process that loads."""
    from torch._inductor import cpu_vec_isa

    cpu_vec_isa.valid_vec_isa_list.cache_clear()
    tried: list[object] = []
    monkeypatch.setattr(cpu_vec_isa.VecISA, "check_build", lambda *isa: tried.append(isa))
    x = torch.randn(6, 9)
    example, path = packages.Example([x]), packages.path_of("dropout", 1)
    packages.make(lambda x: torch.nn.functional.dropout(x, 0.5), example, path, threads=1)
    assert not tried
    assert cpu_vec_isa.valid_vec_isa_list(), "this machine has no vectors"

    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    torch.manual_seed(1)
    (found,) = packages.load(path)([x])
    torch.manual_seed(1)
    torch.testing.assert_close(found, torch.nn.functional.dropout(x, 0.5))
    assert not [*temporary.iterdir()]
