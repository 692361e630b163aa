"""The paper's Figures 2 to 8: a growing share of clients, from 10 % to 100 %, has the large model.

    python jobs/interpolation.py --smoke
    python jobs/interpolation.py --figure 3 --pairs a-e,a-d
    ray job submit --working-dir . -- python jobs/interpolation.py --figure 2 --pairs b-e

Runs that are there already are not repeated, so an interrupted series is just started again.
"""

from argparse import Namespace

from heterofl_ray.jobs import Entry, Smoke, job_parser, listed, run_series
from heterofl_ray.reproducing.catalog import exhibit
from heterofl_ray.reproducing.heterofl import PAIRS, SHARES

FIGURES = tuple("2345678")  # 5 and 7, and 6 and 8, show two scores of the same runs
IMAGES = Smoke(
    "digits-dynamic",
    ["rounds=2", "local_epochs=2", "network.hidden=[32,64]", "tracking.mlflow=false"],
)
TEXT = Smoke(
    "pydocs-dynamic",
    ["rounds=2", "network.embedding=64", "network.layers=1", "tracking.mlflow=false"],
)


def entries(arguments: Namespace) -> list[Entry]:
    short = arguments.smoke
    pairs = listed("--pairs", arguments.pairs or ("a-e" if short else None), PAIRS)
    every = [str(share) for share in SHARES]
    shares = listed("--shares", arguments.shares or ("10,100" if short else None), every)
    smoke = TEXT if arguments.figure == "4" else IMAGES
    found = []
    for row in exhibit(f"figure{arguments.figure}").rows:
        pair, share = row.labels["levels"], row.labels["share"]
        if pair in pairs and share in shares:
            large, small = pair.split("-")
            columns = {"models": f"{large} and {small}", "share of the larger": f"{share} %"}
            found.append(Entry(columns, row.cells[0].preset, smoke, row.cells[0].settings))
    return found


if __name__ == "__main__":
    parser = job_parser(__doc__)
    parser.add_argument("--figure", choices=FIGURES, default="3", help="(%(default)s)")
    parser.add_argument("--pairs", help="such as a-e,b-e (all ten)")
    parser.add_argument("--shares", help="percent of clients with the larger, such as 10,50 (all)")
    raise SystemExit(run_series("interpolation", parser, entries))
