"""The paper's pre-activation ResNet on CIFAR-10, dealt alike to all.

python jobs/cifar10_dynamic.py --smoke
ray job submit --working-dir . -- python jobs/cifar10_dynamic.py --set rounds=20
"""

from heterofl_ray.jobs import Smoke, run_preset

SMOKE = Smoke(
    "digits-dynamic", ["model=preresnet18-paper", "network.hidden=[16,32,64,128]", "rounds=10"]
)

if __name__ == "__main__":
    raise SystemExit(run_preset("cifar10-dynamic", SMOKE, __doc__))
