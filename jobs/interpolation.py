"""The paper's Figures 2 to 8: a growing share of clients, from 10 % to 100 %, has the large model.

    python jobs/interpolation.py --smoke
    python jobs/interpolation.py --figure 3 --pairs a-e,a-d
    ray job submit --working-dir . -- python jobs/interpolation.py --figure 2 --pairs b-e

Runs that are there already are not repeated, so an interrupted series is just started again.
"""

from argparse import Namespace

from heterofl_ray.jobs import Entry, Smoke, job_parser, listed, run_series

# Figures 5 and 7, and 6 and 8, show the local and the global scores of the same runs.
FIGURES = {
    "2": "cifar10-dynamic",
    "3": "mnist-dynamic",
    "4": "wikitext2-dynamic",
    **dict.fromkeys("57", "mnist-noniid"),
    **dict.fromkeys("68", "cifar10-noniid"),
}
PAIRS = [f"{large}-{small}" for large in "abcd" for small in "bcde" if large < small]
SHARES = [str(share) for share in range(10, 101, 10)]
IMAGES = Smoke(
    "digits-dynamic",
    ["rounds=2", "local_epochs=2", "network.hidden=[32,64]", "tracking.mlflow=false"],
)
TEXT = Smoke(
    "pydocs-dynamic",
    ["rounds=2", "network.embedding=64", "network.layers=1", "tracking.mlflow=false"],
)


def entries(arguments: Namespace) -> list[Entry]:
    preset = FIGURES[arguments.figure]
    pairs = listed("--pairs", arguments.pairs or ("a-e" if arguments.smoke else None), PAIRS)
    shares = listed("--shares", arguments.shares or ("10,100" if arguments.smoke else None), SHARES)
    smoke = TEXT if arguments.figure == "4" else IMAGES
    found = []
    for large, small in (pair.split("-") for pair in pairs):
        for share in map(int, shares):
            mix = large if share == 100 else f"{large}{share}-{small}{100 - share}"
            columns = {"models": f"{large} and {small}", "share of the larger": f"{share} %"}
            found.append(Entry(columns, preset, smoke, [f"mix={mix}", "assignment=fix"]))
    return found


if __name__ == "__main__":
    parser = job_parser(__doc__)
    parser.add_argument("--figure", choices=sorted(FIGURES), default="3", help="(%(default)s)")
    parser.add_argument("--pairs", help="such as a-e,b-e (all ten)")
    parser.add_argument("--shares", help="percent of clients with the larger, such as 10,50 (all)")
    raise SystemExit(run_series("interpolation", parser, entries))
