"""`ray start … --block` with workers that are copies of one process, which ends with it.

A program: `python -m heterofl_ray.execution.ray_start --head --block …`.
"""

from __future__ import annotations

import sys

from ray.scripts.scripts import cli

from heterofl_ray.execution.own_ray import copying_workers, patiently

if __name__ == "__main__":
    with copying_workers(), patiently():
        cli(["start", *sys.argv[1:]])
