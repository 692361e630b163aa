"""Every table and figure that can be asked for, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from heterofl_ray.errors import ConfigError
from heterofl_ray.reproducing import fedmd, heterofl, inclusivefl
from heterofl_ray.reproducing.exhibits import Exhibit

_TABLES = {
    f"table{number + shift}": partial(
        heterofl.levels_table, f"table{number + shift}", data, short=shift == 0
    )
    for number, data in enumerate(("mnist", "cifar10", "wikitext2"), 1)
    for shift in (0, 6)
}
EXHIBITS: dict[str, Callable[[], Exhibit]] = {
    **dict(sorted(_TABLES.items())),
    "table4": heterofl.ablation_iid,
    "table5": heterofl.ablation_noniid,
    **{f"figure{n}": partial(heterofl.interpolation, n) for n in range(2, 9)},
    **{f"figure{n}": partial(heterofl.learning_curves, n) for n in range(9, 12)},
}
SCALED: dict[str, Callable[[bool], Exhibit]] = {
    "inclusivefl-table2": inclusivefl.glue_table,
    "inclusivefl-table5": inclusivefl.shares_table,
    "fedmd-table4": fedmd.pooled_table,
    "fedmd-figure2": fedmd.gains_figure,
}
"""Those that are small unless ``--full`` is asked for."""
NAMES = (*sorted(EXHIBITS, key=lambda name: (name[0] != "t", len(name), name)), *SCALED)


def exhibit(name: str, full: bool = False) -> Exhibit:
    if name in SCALED:
        return SCALED[name](full)
    if name not in EXHIBITS:
        raise ConfigError.unknown("EXHIBIT", name, NAMES)
    if full:
        raise ConfigError(f"--full: {name} has the paper's scale as it is")
    return EXHIBITS[name]()
