"""HeteroFL's Tables 1 to 5 and 7 to 9 and Figures 2 to 11, with the settings of its Table 6."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from heterofl_ray.reproducing.exhibits import Cell, Exhibit, Row
from heterofl_ray.reproducing.printed import number, printed

_SHORT_TABLE = (
    *("a", "a-e", "a-b-c-d-e", "b", "b-e", "b-c-d-e"),
    *("c", "c-e", "c-d-e", "d", "d-e", "e"),
)
"""The mixes that Tables 1 to 3 repeat from Tables 7 to 9."""
_OTHERS = {"Standalone": "standalone", "FedAvg": "fedavg", "LG-FedAvg": "lg-fedavg"}
_DATA = {"mnist": "MNIST", "cifar10": "CIFAR10", "wikitext2": "WikiText2"}
PAIRS = tuple(f"{large}-{small}" for large in "abcd" for small in "bcde" if large < small)
SHARES = tuple(range(10, 101, 10))

_NO_CNN = (
    "The paper's rows of Liang et al. on CIFAR10 (Standalone, FedAvg, LG-FedAvg) are left out: "
    "their network is not described there.",
)
_MLP = (
    "The rows Standalone, FedAvg and LG-FedAvg were taken by the paper from Liang et al. (2020), "
    "who trained longer; here they run the same perceptron with the settings of the other rows."
)


def levels_table(name: str, data: str, short: bool) -> Exhibit:
    """Tables 1, 2, 3 (a choice of mixes) and 7, 8, 9 (all)."""
    rows = []
    for line in printed("heterofl_tables789"):
        if line["dataset"] != data:
            continue
        mix, other = line["mix"], _OTHERS.get(line["mix"].partition(" ")[0])
        if other is not None and data == "mnist":
            settings = ("model=mlp", "mix=a", f"method={other}")
            rows.append(Row({"mix": other}, _level_cells(data, settings, line), _MLP))
        elif other is None and (mix in _SHORT_TABLE or not short):
            rows.append(Row({"mix": mix}, _level_cells(data, (f"mix={mix}",), line)))
    notes = _NO_CNN if data == "cifar10" else ()
    title = f"Table {name.removeprefix('table')}: combinations of levels on {_DATA[data]}"
    return Exhibit(name, title, tuple(rows), notes=notes)


def _level_cells(data: str, settings: tuple[str, ...], line: Mapping[str, str]) -> tuple[Cell, ...]:
    if data == "wikitext2":
        return (Cell("perplexity", "wikitext2-dynamic", settings, number(line["perplexity"])),)
    return (
        Cell("iid", f"{data}-dynamic", settings, number(line["iid_accuracy"])),
        *_both(data, "", settings, line, "noniid_local_accuracy", "noniid_global_accuracy"),
    )


def _both(
    data: str, prefix: str, settings: tuple[str, ...], line: Mapping[str, str], *columns: str
) -> Iterator[Cell]:
    """The local and the global score of one run on clients with two classes each."""
    for kind, column in zip(("local", "global"), columns, strict=True):
        yield Cell(f"{prefix}{kind}", f"{data}-noniid", settings, number(line[column]), at=(kind,))


def ablation_iid() -> Exhibit:
    """Table 4: norms and the Scaler."""
    rows = []
    for line in printed("heterofl_table4"):
        settings = _switched(line)
        cells = tuple(
            Cell(data, f"{data}-dynamic", settings, number(line[f"{data}_accuracy"]))
            for data in ("mnist", "cifar10")
        )
        rows.append(Row({name: line[name] for name in ("mix", "norm", "scaler")}, cells))
    return Exhibit("table4", "Table 4: norms and Scaler, IID", tuple(rows))


def ablation_noniid() -> Exhibit:
    """Table 5: norms, the Scaler and masked cross-entropy."""
    rows = []
    for line in printed("heterofl_table5"):
        cells = tuple(
            cell
            for data in ("mnist", "cifar10")
            for cell in _both(
                data, f"{data}-", _switched(line), line, f"{data}_local", f"{data}_global"
            )
        )
        labels = {name: line[name] for name in ("mix", "norm", "scaler", "masked_ce")}
        rows.append(Row(labels, cells))
    title = "Table 5: norms, Scaler and masked cross-entropy, two classes for each client"
    return Exhibit("table5", title, tuple(rows))


def _switched(line: Mapping[str, str]) -> tuple[str, ...]:
    """What an ablation's row has switched off or exchanged.

    The rest is the presets' own, so that whole rows are the runs of the other tables.
    """
    words = [f"mix={line['mix']}"]
    if line["norm"] != "sbn":
        words.append(f"network.norm={line['norm']}")
    if line["scaler"] == "no":
        words.append("network.scaler=false")
    if line.get("masked_ce") == "no":
        words.append("loss.masked=off")
    return tuple(words)


def interpolation(number_: int) -> Exhibit:
    """Figures 2 to 8: a growing share of the clients, which keep their levels, has the larger."""
    data, preset, kind = {
        2: ("CIFAR10", "cifar10-dynamic", "global"),
        3: ("MNIST", "mnist-dynamic", "global"),
        4: ("WikiText2", "wikitext2-dynamic", "global"),
        5: ("MNIST", "mnist-noniid", "local"),
        6: ("CIFAR10", "cifar10-noniid", "local"),
        7: ("MNIST", "mnist-noniid", "global"),
        8: ("CIFAR10", "cifar10-noniid", "global"),
    }[number_]
    rows = []
    for pair in PAIRS:
        large, small = pair.split("-")
        for share in SHARES:
            mix = large if share == 100 else f"{large}{share}-{small}{100 - share}"
            cell = Cell(kind, preset, (f"mix={mix}", "assignment=fix"), at=(kind,))
            rows.append(Row({"levels": pair, "share": str(share)}, (cell,)))
    title = f"Figure {number_}: shares of clients with the larger model, {data}, {kind} score"
    return Exhibit(f"figure{number_}", title, tuple(rows), drawn="interpolation")


def learning_curves(number_: int) -> Exhibit:
    """Figures 9 to 11: half of the clients weak, with levels that stay or are drawn each round."""
    data = {9: "mnist", 10: "cifar10", 11: "wikitext2"}[number_]
    kinds = {"iid": (f"{data}-dynamic", "global")}
    if data != "wikitext2":
        kinds |= {kind: (f"{data}-noniid", kind) for kind in ("local", "global")}
    rows = []
    for pair in PAIRS:
        for assignment in ("fix", "dynamic"):
            settings = (f"mix={pair}", f"assignment={assignment}")
            cells = (Cell(c, preset, settings, at=(k,)) for c, (preset, k) in kinds.items())
            rows.append(Row({"levels": pair, "assignment": assignment}, tuple(cells)))
    title = f"Figure {number_}: learning curves on {_DATA[data]}, levels kept or drawn anew"
    return Exhibit(f"figure{number_}", title, tuple(rows), drawn="curves")
