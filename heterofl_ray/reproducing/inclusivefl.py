"""InclusiveFL's Tables 2 and 5: encoders of several depths on GLUE.

By default at a small scale, with encoders that start from nothing; ``--full`` takes the paper's
clients, rounds and sizes, and ``--set network.pretrained=FOLDER`` its pre-trained start.
"""

from __future__ import annotations

from heterofl_ray.reproducing.exhibits import Cell, Exhibit, Row
from heterofl_ray.reproducing.printed import number, printed

_SMALL = (
    "clients=60",
    "fraction=0.1",
    "rounds=60",
    "lr=0.05",
    "evaluate_every=10",
    "network.embedding=96",
    "network.heads=6",
    "network.feedforward=192",
    "network.layers=6",
)
_NOTES = (
    "At the small scale encoders of 6, 4 and 2 layers start from nothing, with 60 clients and 60 "
    "rounds; the paper's are pre-trained, of 12, 8 and 4 layers, with 1000 clients and rounds.",
)
_RATES = "1.0:{0},0.8125:{1},0.59375:{2}"
"""HeteroFL with as many parameters as the depths have: 768, 624 and 456 of 768 channels."""


def _method(name: str, shares: tuple[int, int, int], full: bool) -> tuple[str, ...]:
    """A row's settings; shares are of large, medium and small devices."""
    mix = "mix=" + "-".join(f"{level}{share}" for level, share in zip("abc", shares, strict=True))
    match name:
        case "allsmall":
            return ("method=fedavg", "mix=a", f"network.layers={4 if full else 2}")
        case "heterofl":
            return ("method=heterofl", "mix=" + _RATES.format(*shares))
        case "inclusivefl-no-distillation":
            return ("method=inclusivefl", mix, "inclusivefl.beta=0")
        case _:
            return (f"method={name}", mix)


def _settings(name: str, shares: tuple[int, int, int], full: bool) -> tuple[str, ...]:
    return (*(() if full else _SMALL), *_method(name, shares, full))


def glue_table(full: bool = False) -> Exhibit:
    """Table 2: six ways to train on GLUE's tasks, scored by the large model."""
    rows = []
    for line in printed("inclusivefl_table2"):
        settings = _settings(line["method"], (1, 1, 1), full)
        cells = (
            Cell(task, "inclusivefl-cola", (f"data={task}", *settings), number(value))
            for task, value in line.items()
            if task != "method"
        )
        rows.append(Row({"method": line["method"]}, tuple(cells)))
    title = "InclusiveFL's Table 2: methods on GLUE"
    return Exhibit("inclusivefl-table2", title, tuple(rows), notes=() if full else _NOTES)


def shares_table(full: bool = False) -> Exhibit:
    """Table 5: CoLA with other shares of small, medium and large devices."""
    rows = []
    for line in printed("inclusivefl_table5"):
        cells = []
        for column in ("1:1:1", "1:2:7", "7:2:1"):
            small, medium, large = (int(part) for part in column.split(":"))
            settings = _settings(line["method"], (large, medium, small), full)
            name = column.replace(":", "-")
            cells.append(Cell(name, "inclusivefl-cola", settings, number(line[column])))
        rows.append(Row({"method": line["method"]}, tuple(cells)))
    title = "InclusiveFL's Table 5: shares of small, medium and large devices, CoLA"
    return Exhibit("inclusivefl-table5", title, tuple(rows), notes=() if full else _NOTES)
