from __future__ import annotations

from collections import Counter

import pytest

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.mixes import parse_mix
from heterofl_ray.randomness import Streams
from heterofl_ray.setting_groups import CapabilityConfig
from heterofl_ray.submodels.levels import (
    affordable_level,
    assign_levels,
    capability,
    fixed_level,
    sample_cohort,
)


def names(config: ExperimentConfig, round_number: int, clients: list[int]) -> str:
    levels = assign_levels(config, Streams(config.seed), round_number, clients)
    return "".join(level.name for level in levels)


def test_cohorts_are_distinct_clients_that_change_with_round_and_seed() -> None:
    config = ExperimentConfig(clients=50, fraction=0.2)
    cohorts = [sample_cohort(config, Streams(seed), t) for seed in (0, 1) for t in (1, 2)]
    assert all(len(set(cohort)) == 10 and cohort == sorted(cohort) for cohort in cohorts)
    assert all(min(cohort) >= 0 and max(cohort) < 50 for cohort in cohorts)
    assert len({tuple(cohort) for cohort in cohorts}) == 4
    assert cohorts[0] == sample_cohort(config, Streams(0), 1)


def test_every_client_is_sampled_equally_often() -> None:
    config = ExperimentConfig(clients=20, fraction=0.5)
    counts = Counter(c for t in range(400) for c in sample_cohort(config, Streams(0), t))
    assert min(counts.values()) > 150
    assert max(counts.values()) < 250


def test_fix_lays_shares_out_over_ids_with_the_rest_to_the_last_level() -> None:
    config = ExperimentConfig(clients=10, mix="a3-e7", assignment="fix")
    assert names(config, 1, list(range(10))) == "aaaeeeeeee"
    assert names(config, 9, [0, 3]) == "ae"
    odd = ExperimentConfig(clients=10, mix="a-c-e", assignment="fix")
    assert names(odd, 1, list(range(10))) == "aaaccceeee"


def test_fix_shares_are_not_lost_to_rounding() -> None:
    mix = parse_mix("a7-b93", 0.5)  # 0.07 x 100 is 7.000000000000001 in floats
    assert sum(fixed_level(mix, client, 100).name == "a" for client in range(100)) == 7


def test_dynamic_draws_follow_the_shares() -> None:
    config = ExperimentConfig(clients=4000, mix="a3-e7")
    share = names(config, 1, list(range(4000))).count("a") / 4000
    assert share == pytest.approx(0.3, abs=0.03)


def test_dynamic_draws_depend_on_round_and_client_but_not_on_company() -> None:
    config = ExperimentConfig(clients=40, mix="a-b-c-d-e")
    everyone = names(config, 1, list(range(40)))
    assert names(config, 1, [7, 3]) == everyone[7] + everyone[3]
    assert names(config, 2, list(range(40))) != everyone


@pytest.mark.parametrize(
    ("value", "level"), [(1.0, "a"), (0.99, "b"), (0.5, "b"), (0.3, "c"), (0.01, "c"), (7.0, "a")]
)
def test_the_largest_level_a_client_affords(value: float, level: str) -> None:
    assert affordable_level(parse_mix("a-b-c", 0.5), value).name == level


def test_affording_is_relative_to_the_global_model() -> None:
    """In the mix c-e the global model is c, so a capability of 1 affords c."""
    assert affordable_level(parse_mix("c-e", 0.5), 1.0).name == "c"
    assert affordable_level(parse_mix("c-e", 0.5), 0.9).name == "e"


def test_capabilities_named_one_by_one() -> None:
    config = ExperimentConfig(
        clients=3,
        mix="a-b-c",
        assignment="capability",
        capability=CapabilityConfig(values=(0.25, 1.0, 0.6)),
    )
    assert names(config, 1, [0, 1, 2]) == "cab"


def test_capabilities_drift_from_round_to_round_only_where_asked() -> None:
    steady = ExperimentConfig(assignment="capability")
    drifting = steady.override(["capability.drift=0.5"])
    streams = Streams(0)
    assert capability(steady, streams, 1, 5) == capability(steady, streams, 2, 5)
    assert capability(drifting, streams, 1, 5) != capability(drifting, streams, 2, 5)
    assert 0.05 <= capability(steady, streams, 1, 5) <= 1.0
