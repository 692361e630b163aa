"""Which shrink ratio, how many levels and which shares: Optuna's search over Ray Tune's trials.

    python jobs/sweep_levels.py --smoke
    python jobs/sweep_levels.py --sweep levels-wikitext2 --trials 40
    ray job submit --working-dir . -- python jobs/sweep_levels.py --trials 60

It ends with the front: the mixes that no other beats in every objective.
"""

from heterofl_ray.jobs import Smoke, run_sweep

SMOKE = Smoke(
    "levels-digits",
    ["sweep.trials=4", "rounds=2", "local_epochs=2", "network.hidden=[32,64]"],
)

if __name__ == "__main__":
    raise SystemExit(run_sweep("levels-mnist", SMOKE, __doc__))
