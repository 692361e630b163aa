"""How much settings matter, and the front as files."""

from __future__ import annotations

from pathlib import Path

import pytest

from heterofl_ray import presets
from heterofl_ray.errors import DataError
from heterofl_ray.reporting.sweep_records import read_records
from heterofl_ray.tuning.front import counts, figure, front_of, write_jobs
from heterofl_ray.tuning.importance import aligned, features_of, importance

from .conftest import MakePlan


def test_a_mix_counts_as_its_levels_and_their_shares(plan: MakePlan) -> None:
    found = features_of({"mix": "a30-c70", "lr": 0.1}, plan())
    assert found == {"lr": 0.1, "levels": 2, "share_a": 0.3, "share_c": 0.7}
    other = features_of({"mix": "b", "lr": 0.2}, plan())
    first, second = aligned([found, other])
    assert list(first) == ["lr", "levels", "share_a", "share_b", "share_c"]
    assert (first["share_b"], second["share_a"], second["share_b"]) == (0.0, 0.0, 1.0)


def test_the_setting_that_decides_has_nearly_all_importance() -> None:
    features = [
        {"lr": place % 5 / 10, "norm": "ab"[place % 2], "batch": place % 7} for place in range(40)
    ]
    values = {
        "score": [100 * row["lr"] for row in features],
        "bytes": [float(row["norm"] == "a") for row in features],
        "flat": [1.0] * 40,
    }
    found = importance(features, values)
    assert set(found) == {"score", "bytes"}  # what never differs explains nothing
    assert found["score"]["lr"] > 0.9
    assert found["bytes"]["norm"] > 0.9
    assert sum(found["score"].values()) == pytest.approx(1)
    assert importance(features[:3], {"score": [1, 2, 3]}) == {}


RECORDS = {
    "objectives": [{"name": "score", "about": "score", "larger": True}],
    "front": [1, 4],
    "trials": [
        {"number": 0, "state": "complete", "values": {"score": 50.0}, "settings": {"mix": "a"},
         "by_seed": [50.0]},
        {"number": 1, "state": "complete", "values": {"score": 70.0}, "settings": {"mix": "b"},
         "by_seed": [70.0]},
        {"number": 2, "state": "left out", "values": None, "settings": {"mix": "c"}},
        {"number": 4, "state": "complete", "values": {"score": 80.0}, "settings": {"mix": "a-c"},
         "by_seed": [79.0, 81.0]},
    ],
}  # fmt: skip


def test_each_point_of_the_front_becomes_a_file_for_each_seed(
    plan: MakePlan, tmp_path: Path
) -> None:
    front = front_of(RECORDS)
    assert [trial["number"] for trial in front] == [4, 1]
    found = plan({"seed": 3})
    (tmp_path / "best").mkdir()
    (tmp_path / "best" / "trial-000.yaml").write_text("of before")
    written = write_jobs(tmp_path, found, front)
    names = sorted(path.name for path in (tmp_path / "best").iterdir())
    assert names == ["trial-001.yaml", "trial-004-seed-3.yaml", "trial-004-seed-4.yaml"]
    assert [Path(path).name for path in written[4]] == names[1:]
    again = presets.load(written[4][1])
    assert again == found.point({"mix": "a-c"}, seed=1)
    assert (again.seed, again.mix) == (4, "a-c")
    assert "score 81.0" in Path(written[4][1]).read_text()


def test_trials_are_counted_and_figures_are_short() -> None:
    assert counts(RECORDS) == {"complete": 3, "left out": 1}
    assert [figure(value) for value in (148700.0, 95.8217, 2e6, 3, "a-e", True)] == [
        "148.7 K", "95.82", "2 M", "3", "a-e", "True",
    ]  # fmt: skip


def test_a_sweep_without_trials_or_with_a_damaged_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no trial yet"):
        read_records(tmp_path)
    (tmp_path / "trials.json").write_text("{")
    with pytest.raises(DataError, match="damaged"):
        read_records(tmp_path)
