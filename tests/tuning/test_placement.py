"""What a trial asks of the cluster, and clusters that can never give it."""

from __future__ import annotations

from typing import Any

import pytest
import ray

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.tuning.placement import check_fits, trial_bundles, trial_workers


def use(monkeypatch: pytest.MonkeyPatch, *nodes: dict[str, float]) -> None:
    """A cluster of these nodes."""
    total: dict[str, float] = {}
    for node in nodes:
        for name, amount in node.items():
            total[name] = total.get(name, 0) + amount
    told: list[dict[str, Any]] = [{"Alive": True, "Resources": node} for node in nodes]
    monkeypatch.setattr(ray, "nodes", lambda: [*told, {"Alive": False, "Resources": {"CPU": 99}}])
    monkeypatch.setattr(ray, "cluster_resources", lambda: total)
    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "10.0.0.1")


def test_a_trial_without_workers_trains_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, {"CPU": 2})
    config = ExperimentConfig()
    assert trial_bundles(config, spread=False) == [{"CPU": 1.0}]
    assert trial_workers(config) == []
    check_fits([{"CPU": 1.0}])


def test_workers_have_places_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, {"CPU": 8, "GPU": 1})
    config = ExperimentConfig().override(
        ["execution.backend=ray", "execution.workers=3", "execution.worker_cpus=2"]
    )
    worker = {"CPU": 2.0, "GPU": 0.25}
    assert trial_bundles(config, spread=False) == [{"CPU": 1.0}, worker, worker, worker]
    assert trial_workers(config) == ["execution.workers=3"]
    check_fits(trial_bundles(config, spread=False))
    # 'auto' would be all there is room for, in every trial
    auto = config.override(["execution.workers=auto"])
    assert trial_workers(auto) == ["execution.workers=1"]


def test_a_trials_driver_stays_with_the_sweeps_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, {"CPU": 2, "node:10.0.0.1": 1.0}, {"CPU": 2})
    config = ExperimentConfig()
    tied = {"CPU": 1.0, "node:10.0.0.1": 0.001}
    assert trial_bundles(config, spread=False) == [tied]
    assert trial_bundles(config, spread=True) == [{"CPU": 1.0}]
    check_fits([tied])


@pytest.mark.parametrize(
    ("bundles", "message"),
    [
        ([{"CPU": 3.0}], "execution.threads=3: a trial needs 3 CPU, and the cluster has 4 CPU"),
        ([{"CPU": 1.0}] * 5, "execution.workers=4: a trial needs 5 x (1 CPU)"),
        ([{"CPU": 1.0}, {"CPU": 1.0, "GPU": 1.0}], "execution.worker_gpus: a trial needs"),
    ],
    ids=["a node too small", "a cluster too small", "no GPU"],
)
def test_what_the_cluster_can_never_give(
    bundles: list[dict[str, float]], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, {"CPU": 2}, {"CPU": 2})
    with pytest.raises(ConfigError) as error:
        check_fits(bundles)
    assert message in str(error.value)
    assert "on 2 nodes" in str(error.value)
