"""Methods on the same data, clients and seeds: HeteroFL, its relatives and the usual baselines.

    python jobs/compare_methods.py --smoke
    python jobs/compare_methods.py --seeds 3 --methods heterofl,fedrolex,fedavg-small
    ray job submit --working-dir . -- python jobs/compare_methods.py --preset mnist-dynamic

Runs that are there already are not repeated, so an interrupted comparison is just started again.
"""

from heterofl_ray.jobs import Smoke, run_comparison

SMOKE = Smoke(
    "methods-digits",
    ["rounds=1", "local_epochs=1", "network.hidden=[32,64]", "tracking.mlflow=false"],
)

if __name__ == "__main__":
    raise SystemExit(run_comparison("methods-digits", SMOKE, __doc__))
