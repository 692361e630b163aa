"""``python -m benchmarks``: the same as ``heterofl-ray bench``."""

from __future__ import annotations

import sys

from heterofl_ray.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))
