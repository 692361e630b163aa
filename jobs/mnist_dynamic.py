"""The paper's CNN on MNIST, dealt alike to all; levels are drawn anew every round.

python jobs/mnist_dynamic.py --smoke
ray job submit --working-dir . -- python jobs/mnist_dynamic.py --set rounds=20
"""

from heterofl_ray.jobs import Smoke, run_preset

SMOKE = Smoke("digits-dynamic", ["rounds=10"])

if __name__ == "__main__":
    raise SystemExit(run_preset("mnist-dynamic", SMOKE, __doc__))
