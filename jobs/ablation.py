"""The paper's Tables 4 and 5: norms, Scaler and masked cross-entropy, switched one by one.

    python jobs/ablation.py --smoke
    python jobs/ablation.py --table 4 --data mnist --mixes a-e
    ray job submit --working-dir . -- python jobs/ablation.py --table 5 --data cifar10

Our scores stand beside the printed ones. Runs that are there already are not repeated.
"""

import csv
from argparse import Namespace
from pathlib import Path

from heterofl_ray.jobs import Entry, Smoke, job_parser, listed, run_series

SMOKE = Smoke(
    "digits-dynamic",
    ["rounds=1", "local_epochs=1", "network.hidden=[64,64]", "tracking.mlflow=false"],
)
SETTINGS = {
    "norm": ("network.norm", {}),
    "scaler": ("network.scaler", {"yes": "true", "no": "false", "na": "true"}),
    "masked_ce": ("loss.masked", {"yes": "on", "no": "off"}),
}


def entries(arguments: Namespace) -> list[Entry]:
    short = arguments.smoke
    tables = listed("--table", arguments.table or ("4" if short else None), ["4", "5"])
    names = listed("--data", arguments.data or ("mnist" if short else None), ["mnist", "cifar10"])
    mixes = listed("--mixes", arguments.mixes or ("a-e" if short else None), ["a", "e", "a-e"])
    return [
        entry(table, data, row, short)
        for data in names
        for table in tables
        for row in csv.DictReader((Path(__file__).parent / f"paper/table_{table}.csv").open())
        if row["mix"] in mixes and (row["norm"] in ("none", "sbn") or not short)
    ]


def entry(table: str, data: str, row: dict[str, str], short: bool) -> Entry:
    """One line of a table: Table 4 prints one accuracy for each data set, Table 5 two."""
    columns = {"table": table, "data": "digits" if short else data, "mix": row["mix"]}
    settings = [f"mix={row['mix']}"]
    for name, (setting, words) in SETTINGS.items():
        columns[name.removesuffix("_ce")] = row.get(name, "na")
        if name in row:
            settings.append(f"{setting}={words.get(row[name], row[name])}")
    if table == "4":
        paper = {"global": float(row[f"{data}_accuracy"])}
        return Entry(columns, f"{data}-dynamic", SMOKE, settings, paper)
    paper = {kind: float(row[f"{data}_{kind}"]) for kind in ("global", "local")}
    smoke = Smoke(SMOKE.preset, [*SMOKE.settings, "partition=classes:2"])
    return Entry(columns, f"{data}-noniid", smoke, settings, paper)


if __name__ == "__main__":
    parser = job_parser(__doc__)
    parser.add_argument("--table", help="4 or 5 (both)")
    parser.add_argument("--data", help="mnist or cifar10 (both)")
    parser.add_argument("--mixes", help="such as a-e,a (all three)")
    raise SystemExit(run_series("ablation", parser, entries))
