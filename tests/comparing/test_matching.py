"""Widths that cost what a mix does: found for every cost, told exactly, refused where there is
none."""

from __future__ import annotations

from pathlib import Path

import pytest

from heterofl_ray import presets
from heterofl_ray.comparing.matching import match
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.models.costs import mix_costs, model_costs
from heterofl_ray.parameter_server import ParameterServer
from heterofl_ray.runner import make_bench, settled
from heterofl_ray.submodels.plan import SubmodelPlan
from heterofl_ray.submodels.selectors import Cut


def wide(*overrides: str) -> ExperimentConfig:
    """The digits preset's widths: enough channels to come near to any cost."""
    return presets.methods_digits().override(overrides)


@pytest.mark.parametrize("mix", ["a-e", "a3-e7", "a-b-c-d-e"])
def test_the_width_costs_what_the_mix_does(mix: str, data_root: Path) -> None:
    config = wide(f"mix={mix}")
    spec = make_bench(config, data_root).spec
    levels = config.levels
    mean = mix_costs(levels, [model_costs(spec, level.rate) for level in levels.levels])
    for cost, factor in (("parameters", 1), ("flops", 1), ("bytes", 8)):
        found = match([config], data_root, cost)
        name = "parameters" if cost == "bytes" else cost
        assert found.mean == pytest.approx(getattr(mean, name) * factor)
        assert found.value == getattr(model_costs(spec, found.level.rate), name) * factor
        assert found.value == pytest.approx(found.mean, rel=0.05)
        assert config.with_one_level(found.level).levels.largest.rate == found.level.rate


def test_no_other_width_comes_nearer(tiny: ExperimentConfig, data_root: Path) -> None:
    """Eight channels side by side: all widths there are, one by one."""
    config = tiny.override(["mix=a1-c3"])
    spec = make_bench(config, data_root).spec
    there_are = [model_costs(spec, channels / 8).parameters for channels in range(1, 9)]
    found = match([config], data_root, "parameters")
    assert found.value == min(there_are, key=lambda value: abs(value - found.mean))


def test_a_mix_of_depths_is_matched_by_width(data_root: Path) -> None:
    config = wide("method=inclusivefl", "mix=a-b")
    spec = make_bench(config, data_root).spec
    deep, shallow = settled(config).levels.levels
    assert (deep.depth, shallow.depth, shallow.rate) == (4, 2, 1.0)
    mean = sum(model_costs(spec.at(level), 1.0).parameters for level in (deep, shallow)) / 2
    found = match([config], data_root, "parameters")
    assert found.mean == mean
    assert found.value == pytest.approx(mean, rel=0.05)
    assert found.level.depth == 0


def test_flops_are_those_of_the_methods_own_steps(data_root: Path) -> None:
    """A fjord client of level a trains level b in half of its steps."""
    config = wide("mix=a-b")
    spec = make_bench(config, data_root).spec
    large, small = (model_costs(spec, rate).flops for rate in (1.0, 0.5))
    assert match([config], data_root, "flops").mean == (large + small) / 2
    drawn = config.override(["method=fjord"])
    assert match([drawn], data_root, "flops").mean == ((large + small) / 2 + small) / 2


def test_bytes_are_what_is_really_moved(tiny_text: ExperimentConfig, data_root: Path) -> None:
    """Both ways, and of the vocabulary only the rows that clients hold."""
    bench = make_bench(tiny_text, data_root)
    server, moved = ParameterServer(bench), 0
    for level in tiny_text.levels.levels:
        model = server.cut(Cut(level))
        for client in range(tiny_text.clients):
            rows = SubmodelPlan.of(bench.layout(level), labels=bench.data.labels(client))
            moved += 2 * sum(4 * tensor.numel() for tensor in rows.extract(model).values())
    found = match([tiny_text], data_root, "bytes")
    assert found.mean == pytest.approx(moved / (2 * tiny_text.clients))
    assert found.mean < 0.8 * 8 * match([tiny_text], data_root, "parameters").mean


def test_the_first_method_with_a_mix_is_the_measure(
    tiny: ExperimentConfig, data_root: Path
) -> None:
    small, deep, wide_ = (
        tiny.override([f"method={name}"]) for name in ("allsmall", "inclusivefl", "heterofl")
    )
    assert match([small, wide_, deep], data_root, "parameters").method == "heterofl"
    assert match([small, deep, wide_], data_root, "parameters").method == "inclusivefl"
    assert match([small, tiny], data_root, "parameters").method == "heterofl"


def test_participants_of_their_own_are_refused(tiny: ExperimentConfig, data_root: Path) -> None:
    with pytest.raises(ConfigError, match=r"--match='flops' .*method=fedmd have models of their"):
        match([tiny.override(["method=fedmd"])], data_root, "flops")
