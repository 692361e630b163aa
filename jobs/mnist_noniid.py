"""The paper's CNN on MNIST with two classes for each client.

python jobs/mnist_noniid.py --smoke
ray job submit --working-dir . -- python jobs/mnist_noniid.py --set rounds=20
"""

from heterofl_ray.jobs import Smoke, run_preset

SMOKE = Smoke("digits-dynamic", ["partition=classes:2", "rounds=10"])

if __name__ == "__main__":
    raise SystemExit(run_preset("mnist-noniid", SMOKE, __doc__))
