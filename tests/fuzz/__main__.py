"""``python -m tests.fuzz``: the long form. Every target in turn, with a count at the end.

--inputs N     in all (100,000)
--seed N       of the first pass (0); every further pass has the next
--target NAME  one alone
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

from .judging import Tally, Yard, yard
from .targets import Target, finished_run, targets

_PASS = 2000
"""Inputs of one seed: a search of its own."""


def fuzz(target: Target, place: Yard, inputs: int, first_seed: int) -> None:
    """Pass after pass until ``inputs`` were tried."""
    number = first_seed
    while place.tally.inputs < inputs:
        most = min(_PASS, inputs - place.tally.inputs)

        @seed(number)
        @settings(
            max_examples=most,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        @given(target.inputs)
        def one_pass(drawn: object) -> None:
            target.read(place, drawn)

        one_pass()
        number += 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target")
    arguments = parser.parse_args()
    os.environ["HETEROFL_MLFLOW"] = "0"
    whole, failed, started = Tally(), [], time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        all_targets = targets(finished_run(Path(folder) / "run"))
        chosen = {n: t for n, t in all_targets.items() if arguments.target in (None, n)}
        shares = sum(target.share for target in chosen.values())
        for name, target in chosen.items():
            began = time.perf_counter()
            wanted = -(-arguments.inputs * target.share // shares)
            with yard(Path(folder) / name) as place:
                try:
                    fuzz(target, place, wanted, arguments.seed)
                except BaseException as error:
                    if isinstance(error, KeyboardInterrupt):
                        raise
                    failed.append(name)
                    import traceback

                    traceback.print_exc()
            tally, seconds = place.tally, time.perf_counter() - began
            whole.inputs += tally.inputs
            print(
                f"{name}: {tally.inputs} inputs, {tally.accepted} read, {tally.refused} refused, "
                f"{tally.inputs / seconds:.0f} a second, slowest {tally.slowest:.2f} s",
                flush=True,
            )
    seconds = time.perf_counter() - started
    print(f"{whole.inputs} inputs in {seconds:.0f} s, {len(failed)} findings: {failed}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
