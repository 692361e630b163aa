"""The cost columns of the HeteroFL paper's Tables 7, 8 and 9, to the printed precision."""

from __future__ import annotations

import csv
import json
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from heterofl_ray.cli import main
from heterofl_ray.mixes import parse_mix
from heterofl_ray.models import registry
from heterofl_ray.models.costs import Costs, mix_costs, model_costs
from heterofl_ray.models.spec import ModelSpec
from heterofl_ray.reporting.numbers import short_number
from heterofl_ray.setting_groups import NetworkConfig

MODELS = {"mnist": "conv", "cifar10": "preresnet18-paper", "wikitext2": "transformer"}
PARAMETERS = {
    "conv": [1556874, 391370, 98922, 25274, 6594],
    "preresnet18-paper": [9622090, 2408746, 603802, 151762, 38350],
    "transformer": [19263999, 9107967, 4435455, 2200575, 1108479],
}


def paper_rows() -> list[dict[str, str]]:
    with (Path(__file__).parent / "heterofl_tables_7_8_9.csv").open() as file:
        return [row for row in csv.DictReader(file) if "Liang" not in row["mix"]]


def make_spec(model: str) -> ModelSpec:
    family = registry.family(model)
    return ModelSpec(
        model, family.example_input, family.example_outputs, NetworkConfig(), family.default_norm
    )


@cache
def costs(model: str, rate: float) -> Costs:
    return model_costs(make_spec(model), rate)


def test_the_paper_has_31_mixes_of_3_models() -> None:
    assert len(paper_rows()) == 93


@pytest.mark.parametrize("row", paper_rows(), ids=lambda row: f"{row['dataset']}-{row['mix']}")
def test_every_row_as_printed(row: dict[str, str]) -> None:
    model, mix = MODELS[row["dataset"]], parse_mix(row["mix"], 0.5)
    by_level = [costs(model, level.rate) for level in mix.levels]
    average = mix_costs(mix, by_level)
    assert f"{average.parameters / by_level[0].parameters:.2f}" == row["ratio"]
    assert short_number(average.parameters) == row["parameters_printed"]
    assert short_number(average.flops_paper) == row["flops_printed"]
    assert f"{average.space_mb:.2f}" == row["space_mb"]


@pytest.mark.parametrize("dataset", MODELS)
def test_the_command_prints_the_paper_row(dataset: str, capsys: pytest.CaptureFixture[str]) -> None:
    row = next(r for r in paper_rows() if (r["dataset"], r["mix"]) == (dataset, "a-b-c-d-e"))
    arguments = ["costs", "--model", MODELS[dataset], "--mix", "a-b-c-d-e"]
    assert main([*arguments, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert [level["parameters"] for level in values["levels"].values()] == PARAMETERS[
        MODELS[dataset]
    ]
    assert f"{values['mix']['ratio']:.2f}" == row["ratio"]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    mix_line = next(line for line in shown.splitlines() if "a-b-c-d-e" in line)
    for column in ("ratio", "parameters_printed", "flops_printed", "space_mb"):
        assert row[column] in mix_line


def test_customary_preresnet18() -> None:
    assert costs("preresnet18", 1.0).parameters == 11_172_170


def test_mlp_of_the_baseline_rows() -> None:
    found = costs("mlp", 1.0)
    assert found.parameters == 633_226
    assert short_number(found.flops_paper) == "1.3 M"
    assert f"{found.space_mb:.2f}" == "2.42"


def hand_counted_mlp(rate_widths: list[int]) -> int:
    sizes = [784, *rate_widths, 10]
    return sum(a * b + b for a, b in pairwise(sizes))


@pytest.mark.parametrize("shrink", [0.3, 0.7, 0.9])
def test_ratios_and_level_counts_the_paper_has_no_row_for(
    shrink: float, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["costs", "--model", "mlp", "--mix", "a1-c2-g5", "--shrink", str(shrink), "--json"]
    assert main(command) == 0
    values = json.loads(capsys.readouterr().out)
    by_hand = {}
    for name, power in (("a", 0), ("c", 2), ("g", 6)):
        # integer arithmetic, so that no rounding of floats is shared with the code under test
        numerator, denominator = round(shrink * 10) ** power, 10**power
        widths = [-(-full * numerator // denominator) for full in (512, 256, 256, 128)]
        by_hand[name] = hand_counted_mlp(widths)
    assert {n: v["parameters"] for n, v in values["levels"].items()} == by_hand
    mean = (by_hand["a"] + 2 * by_hand["c"] + 5 * by_hand["g"]) / 8
    assert values["mix"]["parameters"] == pytest.approx(mean, rel=1e-12)
    assert values["mix"]["ratio"] == pytest.approx(mean / by_hand["a"], rel=1e-12)


def test_transformer_at_a_rate_where_heads_round_apart() -> None:
    """Rate 0.7: embedding ceil(179.2) = 180, inner width 8 x ceil(22.4) = 184."""
    e, inner, ff, words = 180, 184, 359, 33279
    layer = 3 * (e * inner + inner) + (inner * e + e) + 2 * 2 * e
    layer += (e * ff + ff) + (ff * e + e)
    by_hand = (words + 1) * e + 64 * e + 2 * e + 4 * layer
    by_hand += (e * e + e) + 2 * e + (e * words + words)
    assert costs("transformer", 0.7).parameters == by_hand


def test_honest_flops_count_two_per_multiply_add() -> None:
    spec = ModelSpec("mlp", (1, 2, 2), 3, NetworkConfig(hidden=(5,)))
    assert model_costs(spec, 1.0).flops == 2 * (4 * 5 + 5 * 3)
