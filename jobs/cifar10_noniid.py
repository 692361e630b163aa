"""The paper's pre-activation ResNet on CIFAR-10 with two classes for each client.

python jobs/cifar10_noniid.py --smoke
ray job submit --working-dir . -- python jobs/cifar10_noniid.py --set rounds=20
"""

from heterofl_ray.jobs import Smoke, run_preset

SMOKE = Smoke(
    "digits-dynamic",
    [
        "partition=classes:2",
        "model=preresnet18-paper",
        "network.hidden=[16,32,64,128]",
        "rounds=10",
    ],
)

if __name__ == "__main__":
    raise SystemExit(run_preset("cifar10-noniid", SMOKE, __doc__))
