"""``python -m benchmarks``: the same as ``heterofl-ray bench``; and ``… soak``, see `soak`."""

from __future__ import annotations

import sys

from heterofl_ray.cli import answer, main


def soak() -> int:
    from benchmarks.soak import main as run

    return run(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(answer(soak) if sys.argv[1:2] == ["soak"] else main(["bench", *sys.argv[1:]]))
