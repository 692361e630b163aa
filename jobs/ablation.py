"""The paper's Tables 4 and 5: norms, Scaler and masked cross-entropy, switched one by one.

    python jobs/ablation.py --smoke
    python jobs/ablation.py --table 4 --data mnist --mixes a-e
    ray job submit --working-dir . -- python jobs/ablation.py --table 5 --data cifar10

Our scores stand beside the printed ones. Runs that are there already are not repeated.
"""

from argparse import Namespace

from heterofl_ray.jobs import Entry, Smoke, job_parser, listed, run_series
from heterofl_ray.reproducing.catalog import exhibit
from heterofl_ray.reproducing.exhibits import Row

SMOKE = Smoke(
    "digits-dynamic",
    ["rounds=1", "local_epochs=1", "network.hidden=[64,64]", "tracking.mlflow=false"],
)


def entries(arguments: Namespace) -> list[Entry]:
    short = arguments.smoke
    tables = listed("--table", arguments.table or ("4" if short else None), ["4", "5"])
    names = listed("--data", arguments.data or ("mnist" if short else None), ["mnist", "cifar10"])
    mixes = listed("--mixes", arguments.mixes or ("a-e" if short else None), ["a", "e", "a-e"])
    return [
        entry(table, data, row, short)
        for data in names
        for table in tables
        for row in exhibit(f"table{table}").rows
        if row.labels["mix"] in mixes and (row.labels["norm"] in ("none", "sbn") or not short)
    ]


def entry(table: str, data: str, row: Row, short: bool) -> Entry:
    """One line of a table: Table 4 prints one accuracy for each data set, Table 5 two."""
    cells = [cell for cell in row.cells if cell.preset.startswith(data)]
    columns = {
        "table": table,
        "data": "digits" if short else data,
        **{name: row.labels[name] for name in ("mix", "norm", "scaler")},
        "masked": row.labels.get("masked_ce", "na"),
    }
    paper = {cell.at[0]: cell.paper for cell in cells if cell.paper is not None}
    skewed = Smoke(SMOKE.preset, [*SMOKE.settings, "partition=classes:2"])
    smoke = SMOKE if table == "4" else skewed
    return Entry(columns, cells[0].preset, smoke, cells[0].settings, paper)


if __name__ == "__main__":
    parser = job_parser(__doc__)
    parser.add_argument("--table", help="4 or 5 (both)")
    parser.add_argument("--data", help="mnist or cifar10 (both)")
    parser.add_argument("--mixes", help="such as a-e,a (all three)")
    raise SystemExit(run_series("ablation", parser, entries))
