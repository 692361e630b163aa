"""FedMD's Figure 2 with its Table 4: every participant's way from its baseline to the pooled bound.

By default at a small scale, with a quarter of the paper's filters and a short pre-training;
``--full`` takes the paper's.
"""

from __future__ import annotations

from heterofl_ray import presets
from heterofl_ray.reproducing.exhibits import Cell, Exhibit, Row
from heterofl_ray.reproducing.printed import number, printed

_SMALL = ("fedmd.pretrain_epochs=2", "fedmd.public_size=2000")
_PLACES = {
    "mnist_iid": ("fedmd-mnist", ()),
    "mnist_noniid": ("fedmd-mnist", ("partition=natural", "fedmd.private_per_class=20")),
    "cifar_iid": ("fedmd-cifar10", ()),
}
_NOTES = (
    "CIFAR non-IID, where participants know other sub-classes of the same super-classes, is left "
    "out.",
)
_SCALE = (
    "At the small scale participants have a quarter of the paper's filters, see the public set "
    "twice before the first round and 2000 of its examples in each.",
)


def _settings(place: str, full: bool) -> tuple[str, tuple[str, ...]]:
    preset, settings = _PLACES[place]
    if full:
        return preset, settings
    smaller = ",".join(_quartered(text) for text in presets.load(preset).fedmd.participants)
    return preset, (*settings, *_SMALL, f"fedmd.participants=[{smaller}]")


def _quartered(text: str) -> str:
    model, widths, dropout = text.split(":")
    return f"{model}:{'-'.join(str(int(width) // 4) for width in widths.split('-'))}:{dropout}"


def pooled_table(full: bool = False) -> Exhibit:
    """Table 4: each model trained on everybody's private examples."""
    return _exhibit("fedmd-table4", "FedMD's Table 4: pooled private data", ("pooled",), full)


def gains_figure(full: bool = False) -> Exhibit:
    """Figure 2: from the baseline after transfer learning, by digesting the consensus."""
    title = "FedMD's Figure 2: participants' accuracy over the rounds"
    return _exhibit("fedmd-figure2", title, ("baseline", "accuracy", "pooled"), full)


def _exhibit(name: str, title: str, figures: tuple[str, ...], full: bool) -> Exhibit:
    rows = []
    for line in printed("fedmd_table4"):
        who = f"p{int(line['participant']) - 1}"
        cells = []
        for place in _PLACES:
            preset, settings = _settings(place, full)
            for figure in figures:
                column = place.replace("_", "-") + ("" if len(figures) == 1 else f"-{figure}")
                paper = number(line[place]) if figure == "pooled" else None
                at = ("levels", who, figure)
                cells.append(Cell(column, preset, settings, paper, at))
        rows.append(Row({"participant": line["participant"]}, tuple(cells)))
    drawn = "participants" if len(figures) > 1 else "side by side"
    notes = _NOTES if full else (*_NOTES, *_SCALE)
    return Exhibit(name, title, tuple(rows), drawn=drawn, notes=notes)
