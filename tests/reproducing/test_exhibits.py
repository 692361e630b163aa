"""The papers' tables and figures: which runs they ask for, and what was printed."""

from __future__ import annotations

import pytest

from heterofl_ray import ExperimentConfig, presets
from heterofl_ray.errors import ConfigError
from heterofl_ray.models.registry import MODELS
from heterofl_ray.reproducing.catalog import NAMES, SCALED, exhibit
from heterofl_ray.reproducing.exhibits import Cell, Exhibit, Row
from heterofl_ray.reproducing.printed import printed


def row(name: str, of: Exhibit) -> Row:
    (found,) = (each for each in of.rows if each.name == name)
    return found


def papers(found: Row) -> dict[str, float | None]:
    return {cell.column: cell.paper for cell in found.cells}


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_is_a_valid_run(name: str) -> None:
    found = exhibit(name)
    assert len({row.name for row in found.rows}) == len(found.rows)
    for each in found.rows:
        for cell in each.cells:
            presets.load(cell.preset).override(cell.settings)


def test_the_short_tables_are_part_of_the_long_ones() -> None:
    for short, long in (("table1", "table7"), ("table2", "table8"), ("table3", "table9")):
        few, many = exhibit(short).rows, exhibit(long).rows
        assert set(map(repr, few)) < set(map(repr, many))
    assert len(exhibit("table8").rows) == 31  # every combination of five levels
    assert len(exhibit("table7").rows) == 31 + 3  # and the three methods of Liang et al.
    assert len(exhibit("table2").rows) == 12


def test_printed_values_by_hand() -> None:
    """As they stand in the paper."""
    assert papers(row("d-e", exhibit("table1"))) == {"iid": 99.19, "local": 99.63, "global": 97.7}
    assert papers(row("c-e", exhibit("table2"))) == {"iid": 86.88, "local": 91.83, "global": 63.47}
    assert papers(row("e", exhibit("table3"))) == {"perplexity": 7.41}
    assert papers(row("e:in:na", exhibit("table4"))) == {"mnist": 97.4, "cifar10": 66.4}
    found = papers(row("a-e:sbn:yes:yes", exhibit("table5")))
    assert found == {
        "mnist-local": 99.8, "mnist-global": 98.2, "cifar10-local": 92.8, "cifar10-global": 60.4
    }  # fmt: skip
    assert papers(row("heterofl", exhibit("inclusivefl-table2")))["sts-b"] == 30.54
    assert papers(row("inclusivefl", exhibit("inclusivefl-table5")))["1-2-7"] == 61.23
    assert papers(row("heterofl", exhibit("inclusivefl-table5")))["7-2-1"] is None


def test_the_printed_averages_of_glue_come_out() -> None:
    """Guards the table against slips: the paper prints each method's average too."""
    averages = {"alllarge": 85.45, "dropweak": 79.85, "allsmall": 74.29, "heterofl": 53.28}
    averages |= {"inclusivefl-no-distillation": 82.49, "inclusivefl": 83.08}
    for line in printed("inclusivefl_table2"):
        name = line.pop("method")
        mean = sum(float(value) for value in line.values()) / len(line)
        assert mean == pytest.approx(averages[name], abs=0.3)  # its own slips: up to 0.27


@pytest.mark.parametrize(
    ("name", "rounds", "milestones", "lr"),
    [
        ("table7", {"iid": 200, "local": 400, "global": 400}, {"iid": [100], "local": [200]}, 0.01),
        ("table8", {"iid": 400, "local": 800}, {"iid": [150, 250], "local": [300, 500]}, 0.1),
    ],
)
def test_the_papers_table_6_holds_for_every_row(
    name: str, rounds: dict[str, int], milestones: dict[str, list[int]], lr: float
) -> None:
    for each in exhibit(name).rows:
        for cell in each.cells:
            config = presets.load(cell.preset).override(cell.settings)
            assert config.rounds == rounds.get(cell.column, config.rounds)
            assert list(config.optimizer.milestones) == milestones.get(
                cell.column, list(config.optimizer.milestones)
            )
            assert (config.lr, config.local_epochs, config.batch_size) == (lr, 5, 10)
            assert (config.optimizer.momentum, config.optimizer.weight_decay) == (0.9, 5e-4)
            assert (config.clients, config.fraction, config.assignment) == (100, 0.1, "dynamic")
            assert config.partition == ("iid" if cell.column == "iid" else "classes:2")


def test_ablations_switch_what_they_say() -> None:
    def config(name: str, table: str) -> ExperimentConfig:
        cell = row(name, exhibit(table)).cells[0]
        return presets.load(cell.preset).override(cell.settings)

    without = config("a-e:none:no", "table4")
    assert (without.network.norm, without.network.scaler) == ("none", False)
    layers = config("e:ln:na:yes", "table5")
    assert (layers.network.norm, layers.loss.masked, layers.partition) == (
        "ln", "auto", "classes:2"  # auto: masked where clients differ
    )  # fmt: skip
    assert config("a-e:none:no:no", "table5").loss.masked == "off"
    assert MODELS["conv"].default_norm == MODELS["preresnet18-paper"].default_norm == "sbn"
    assert {cell.at for cell in row("e:ln:na:yes", exhibit("table5")).cells} == {
        ("local",), ("global",)
    }  # fmt: skip


def test_whole_rows_are_the_same_runs_in_every_table() -> None:
    def hashes(name: str, table: str) -> set[str]:
        cells = row(name, exhibit(table)).cells
        return {presets.load(cell.preset).override(cell.settings).hash() for cell in cells}

    assert hashes("e:sbn:na", "table4") & hashes("e", "table7")
    assert hashes("a-e:sbn:yes", "table4") & hashes("a-e", "table8")
    assert hashes("a-e:sbn:yes:yes", "table5") & hashes("a-e", "table7")


def test_figures_have_fixed_levels_and_growing_shares() -> None:
    for number in range(2, 9):
        rows = exhibit(f"figure{number}").rows
        assert len(rows) == 100
        configs = [presets.load(r.cells[0].preset).override(r.cells[0].settings) for r in rows]
        assert {config.assignment for config in configs} == {"fix"}
        shares = [config.levels.shares[0] for config in configs[:10]]
        assert shares == pytest.approx([tenth / 10 for tenth in range(1, 11)])
    assert {cell.at for row in exhibit("figure5").rows for cell in row.cells} == {("local",)}
    assert {cell.at for row in exhibit("figure7").rows for cell in row.cells} == {("global",)}


def test_curves_have_both_assignments() -> None:
    rows = exhibit("figure9").rows
    assert len(rows) == 20
    assert {row.labels["assignment"] for row in rows} == {"fix", "dynamic"}
    assert exhibit("figure11").columns == ["iid"]


def test_inclusivefl_has_depths_and_heterofl_as_many_parameters() -> None:
    full = exhibit("inclusivefl-table5", full=True)
    (weak,) = row("inclusivefl", full).only(["1-2-7"]).cells
    config = presets.load(weak.preset).override(weak.settings)
    assert config.levels.shares == pytest.approx((0.7, 0.2, 0.1))  # seven in ten are large
    assert (config.clients, config.rounds, config.network.layers) == (1000, 1000, 12)
    small = row("allsmall", full).cells[0]
    assert presets.load(small.preset).override(small.settings).network.layers == 4
    hetero = row("heterofl", full).cells[0]
    rates = [
        level.rate for level in presets.load(hetero.preset).override(hetero.settings).levels.levels
    ]
    assert [768 * rate for rate in rates] == [768, 624, 456]


def test_fedmd_and_inclusivefl_are_small_unless_asked_for_in_full() -> None:
    def config(name: str, full: bool) -> ExperimentConfig:
        cell = exhibit(name, full).rows[0].cells[0]
        return presets.load(cell.preset).override(cell.settings)

    for name in SCALED:
        small, full = config(name, False), config(name, True)
        if name.startswith("inclusivefl"):
            assert (small.clients, full.clients) == (60, 1000)
        else:
            assert (small.fedmd.participants[0], full.fedmd.participants[0]) == (
                "party:32-64:.2", "party:128-256:.2"
            )  # fmt: skip
            assert (small.fedmd.pretrain_epochs, full.fedmd.pretrain_epochs) == (2, 20)


def test_fedmds_participants_are_read_one_by_one() -> None:
    table, figure = exhibit("fedmd-table4"), exhibit("fedmd-figure2")
    assert papers(row("6", table)) == {"mnist-iid": 89.9, "mnist-noniid": 90.1, "cifar-iid": 84.2}
    summary = {"levels": {"p5": {"accuracy": 70.0, "baseline": 50.0, "pooled": 80.0}}}
    cells = row("6", figure).cells[:3]
    assert [cell.value(summary) for cell in cells] == [50.0, 70.0, 80.0]
    assert cells[2].paper == 89.9


def test_rows_and_columns_are_chosen_by_name() -> None:
    found = exhibit("table7").choose("d-e,e", "iid")
    assert [row.name for row in found.rows] == ["d-e", "e"]  # the paper's order
    assert found.columns == ["iid"]
    found = exhibit("table4").choose("e,a:sbn", None)
    assert [row.name for row in found.rows][:1] == ["a:sbn:na"]
    assert len(found.rows) == 1 + 5  # 'e' means e's rows, and not a-e's
    assert exhibit("table7").choose(None, None) == exhibit("table7")


@pytest.mark.parametrize(
    ("name", "rows", "columns", "says"),
    [
        ("table7", "d-f", None, "--rows='d-f' is not valid: did you mean 'd-e'?"),
        ("table7", None, "idd", "--columns='idd' is not valid: did you mean 'iid'?"),
        ("table10", None, None, "EXHIBIT='table10' is not valid"),
    ],
)
def test_unknown_names_are_answered_with_what_there_is(
    name: str, rows: str | None, columns: str | None, says: str
) -> None:
    with pytest.raises(ConfigError) as error:
        exhibit(name).choose(rows, columns)
    assert says in str(error.value)


def test_full_is_refused_where_there_is_no_small_scale() -> None:
    with pytest.raises(ConfigError, match="table7 has the paper's scale as it is"):
        exhibit("table7", full=True)


def test_a_cells_value_is_found_in_the_summary() -> None:
    summary = {"global": {"accuracy": 91.0, "loss": 2.0}, "local": {}, "gain": {"mean": 3.5}}
    assert Cell("x", "p", ()).value(summary) == 91.0
    assert Cell("x", "p", (), at=("local",)).value(summary) is None
    assert Cell("x", "p", (), at=("gain", "mean")).value(summary) == 3.5
    assert Cell("x", "p", (), at=("gain", "least")).value(summary) is None


def test_other_data_has_no_printed_values() -> None:
    other = exhibit("table1").on_other_data()
    assert {cell.paper for row in other.rows for cell in row.cells} == {None}
    assert other.notes == ("Not on the paper's data.",)
