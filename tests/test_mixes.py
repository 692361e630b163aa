from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofl_ray.errors import ConfigError
from heterofl_ray.mixes import Level, parse_mix


def test_equal_shares() -> None:
    mix = parse_mix("a-e", 0.5)
    assert mix.levels == (Level("a", 1.0), Level("e", 0.0625))
    assert mix.shares == (0.5, 0.5)


def test_weighted_shares() -> None:
    assert parse_mix("a3-e7", 0.5).shares == (0.3, 0.7)


def test_explicit_rates_are_sorted_from_the_largest() -> None:
    mix = parse_mix("0.4:0.7,1.0:0.3", 0.5)
    assert mix.levels == (Level("1", 1.0), Level("0.4", 0.4))
    assert mix.shares == (0.3, 0.7)


def test_explicit_rates_without_shares_are_equal() -> None:
    assert parse_mix("1,0.5,0.25", 0.5).shares == (1 / 3, 1 / 3, 1 / 3)


def test_a_level_nobody_trains_is_dropped_so_the_global_model_shrinks() -> None:
    mix = parse_mix("a0-c1-e1", 0.5)
    assert [level.name for level in mix.levels] == ["c", "e"]
    assert mix.largest == Level("c", 0.25)


def test_any_shrink_ratio_and_number_of_levels() -> None:
    assert parse_mix("a-d-z", 0.9).levels[2].rate == pytest.approx(0.9**25)


@pytest.mark.parametrize(
    ("text", "shrink", "says"),
    [
        ("", 0.5, "write levels like"),
        ("a-", 0.5, "write levels like"),
        ("A-E", 0.5, "write levels like"),
        ("a-1", 0.5, "0 or more"),
        ("a-3-e7", 0.5, "0 or more"),
        ("a0-e0", 0.5, "share above 0"),
        ("a-a", 0.5, "named once"),
        ("1.5:1", 0.5, "above 0 and up to 1"),
        ("0:1", 0.5, "above 0 and up to 1"),
        ("1:nan", 0.5, "write levels like"),
        ("1.0:-1,0.5:2", 0.5, "0 or more"),
        ("a-b", 0.0, "shrink=0.0"),
        ("a-b", 1.5, "shrink=1.5"),
    ],
)
def test_what_is_refused(text: str, shrink: float, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse_mix(text, shrink)


@given(st.text(max_size=12), st.floats(0.01, 1))
def test_any_text_is_a_mix_or_a_config_error(text: str, shrink: float) -> None:
    try:
        mix = parse_mix(text, shrink)
    except ConfigError:
        return
    assert sum(mix.shares) == pytest.approx(1)
    assert all(0 < level.rate <= 1 for level in mix.levels)
