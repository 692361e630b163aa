"""Savings against all-large, worked by hand and against a run that is all-large."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.reporting.comparison import Comparison
from heterofl_ray.reporting.runs import Missing, Run, open_run
from heterofl_ray.reporting.savings import savings
from heterofl_ray.reporting.tables import savings_table
from heterofl_ray.runner import run
from tests.reporting.conftest import COLUMNS, MEGABYTE

KnownRun = Callable[..., Run]


def test_bytes_and_flops_by_hand(known_run: KnownRun) -> None:
    saved = savings(known_run())
    assert saved.updates == 6
    assert saved.megabytes == pytest.approx(3 * (610 + 310) * 4 / MEGABYTE, rel=1e-15)
    assert saved.megabytes_large == 6 * 610 * 4 / MEGABYTE
    assert saved.megabytes_exact
    assert saved.bytes_share == pytest.approx(920 / 1220, rel=1e-15)
    # Two operations for each multiply-add: 2·(64·8 + 8·10) and 2·(64·4 + 4·10).
    assert saved.flops_large == 1184
    assert saved.flops == (1184 + 592) / 2
    assert saved.flops_share == 0.75


def test_a_rejected_update_was_moved_but_did_not_count(known_run: KnownRun) -> None:
    columns = COLUMNS | {"clients_b": [0, 1, 1], "rejected": [0, 0, 1]}
    saved = savings(known_run(columns))
    assert saved.updates == 5
    assert saved.megabytes_large == 6 * 610 * 4 / MEGABYTE
    assert saved.flops == (3 * 1184 + 2 * 592) / 5


def test_the_table_has_the_same_figures(known_run: KnownRun) -> None:
    table = savings_table(Comparison.of([known_run()]))
    (row,) = table.rows
    assert list(row[1:]) == ["6", "0.01", "0.01", "24.6 %", "888", "1,184", "25.0 %"]


def test_a_run_without_updates_has_no_savings(known_run: KnownRun) -> None:
    nobody = {name: [0] * 3 if name.startswith("clients") else v for name, v in COLUMNS.items()}
    with pytest.raises(Missing, match="no client-updates"):
        savings(known_run(nobody))


def _both(config: ExperimentConfig) -> tuple[Run, Run]:
    """The config's run, and the same cohorts all training its largest level."""
    mixed = run(config)
    large = run(dataclasses.replace(config, mix=config.levels.largest.name))
    return tuple(open_run(Path(result.summary["run_dir"])) for result in (mixed, large))


def test_all_large_is_what_a_run_at_the_largest_level_moves(tiny: ExperimentConfig) -> None:
    mixed, large = _both(dataclasses.replace(tiny, partition="classes:2"))
    assert savings(mixed).megabytes_large == sum(large.column("megabytes_down"))
    assert savings(mixed).megabytes < savings(mixed).megabytes_large


def test_all_large_counts_each_text_clients_own_words(tiny_text: ExperimentConfig) -> None:
    mixed, large = _both(tiny_text)
    moved = sum(large.column("megabytes_down"))
    assert all(mixed.updates().values())
    assert savings(mixed).megabytes_exact
    assert savings(mixed).megabytes_large == pytest.approx(moved, rel=1e-12)
    # A history of before levels had bytes of their own: words are taken to be alike.
    older = {
        name: values
        for name, values in mixed.columns.items()
        if name not in ("megabytes_a", "megabytes_b")
    }
    about = savings(dataclasses.replace(mixed, columns=older))
    assert not about.megabytes_exact
    assert about.megabytes_large == pytest.approx(moved, rel=0.1)
    assert about.megabytes_large != pytest.approx(moved, rel=1e-6)
