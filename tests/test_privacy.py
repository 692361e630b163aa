"""Client-level privacy: clipping, noise by count, what rounds cost, and what is refused."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from dp_accounting import rdp

from heterofl_ray import preflight, run
from heterofl_ray.clients.group_sum import GroupUpdate
from heterofl_ray.clients.jobs import TrainJob
from heterofl_ray.clients.update import client_update
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.commands.run import show_result
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.execution.local import LocalBackend
from heterofl_ray.parameter_server import ParameterServer
from heterofl_ray.privacy import Accountant, divergences
from heterofl_ray.randomness import Streams
from heterofl_ray.runner import settled
from heterofl_ray.simulation import Simulation
from heterofl_ray.state import fingerprint
from heterofl_ray.submodels.levels import sample_cohort
from heterofl_ray.submodels.plan import SubmodelPlan
from heterofl_ray.submodels.selectors import Cut, leading

CPU = torch.device("cpu")
Z, C = 1.5, 0.4


@pytest.fixture
def private(tiny: ExperimentConfig) -> ExperimentConfig:
    return tiny.override(
        [
            "network.norm=ln",
            f"privacy.noise={Z}",
            f"privacy.clip={C}",
            "execution.trainer=plain",
            "evaluation.levels=never",
        ]
    )


# ---- noise -----------------------------------------------------------------------------------


@pytest.mark.parametrize("held_by", [{"a": 1, "c": 2}, {"c": 3}])
@pytest.mark.parametrize("shard", [False, True])
def test_an_element_that_k_clients_hold_has_noise_of_zc_over_k(
    private: ExperimentConfig, data_root: Path, held_by: dict[str, int], shard: bool
) -> None:
    """Clients that change nothing: the new model is the old one and the noise, keyed by name."""
    bench = Workbench(private, data_root, CPU)
    mix = private.levels
    names = sorted(bench.layout(mix.largest))[::2] if shard else None
    server = ParameterServer(bench, names)
    before = {name: tensor.clone() for name, tensor in server.parameters.items()}
    counts = {name: torch.zeros_like(tensor) for name, tensor in before.items()}
    for name, clients in held_by.items():
        cut = Cut(mix[name])
        sums = {key: clients * tensor for key, tensor in server.cut(cut).items()}
        server.accumulate(GroupUpdate(cut, sums, float(clients), None, None))
        outer = {key: bench.layout(mix.largest)[key] for key in before}
        inner = {key: bench.layout(mix[name])[key] for key in before}
        plan = SubmodelPlan.of(outer, leading(outer, inner))
        plan.add(counts, {key: torch.full_like(sums[key], clients) for key in sums})
    server.commit(7)
    for name, tensor in server.parameters.items():
        random = Streams(private.seed).torch(f"privacy noise: {name}", 7)
        drawn = torch.randn(tensor.shape, generator=random)
        held = counts[name] > 0
        noise = torch.where(held, Z * C / counts[name] * drawn, 0)
        assert torch.allclose(tensor - before[name], noise, rtol=0, atol=1e-6)
        assert torch.equal(tensor[~held], before[name][~held])
    assert {float(n) for c in counts.values() for n in c.unique()} == (
        {1.0, 3.0} if "a" in held_by else {0.0, 3.0}
    )


# ---- what is summed ----------------------------------------------------------------------------


@pytest.mark.parametrize("hostile", [(), ("attack.kind=nan", "attack.share=1")])
def test_a_sum_is_of_clipped_updates_in_which_missing_labels_count_as_unchanged(
    private: ExperimentConfig, data_root: Path, hostile: Sequence[str]
) -> None:
    """Rejected updates count as unchanged too: what an element is divided by tells nothing."""
    config = private.override(["partition=classes:2", *hostile])
    bench = Workbench(config, data_root, CPU)
    level, clients = config.levels.largest, (1, 4, 9)
    start = ParameterServer(bench).cut(Cut(level))
    expected = {name: 3 * tensor.double() for name, tensor in start.items()}
    lengths = []
    for client in clients if not hostile else ():
        update = client_update(bench, level, client, 1, 0.1, start)
        whole = {name: tensor.clone() for name, tensor in start.items()}
        plan = SubmodelPlan.of(bench.layout(level), labels=update.labels)
        plan.scatter(whole, update.parameters)
        moves = {name: (whole[name] - start[name]).double() for name in start}
        lengths.append(math.sqrt(sum(float(move.square().sum()) for move in moves.values())))
        for name, move in moves.items():
            expected[name] += move * min(1, C / lengths[-1])
    reports, found = TrainJob(1, Cut(level), clients, 0.1).run(bench, start)
    assert found.weight == 3
    assert found.labels is None
    assert found.label_weights is None
    for name, total in found.sums.items():
        assert torch.allclose(total.double(), expected[name], rtol=0, atol=1e-6)
    assert [r.bounded for r in reports] == ([size > C for size in lengths] or [False] * 3)
    assert [r.rejected is not None for r in reports] == [bool(hostile)] * 3


def test_what_nobody_sends_gets_no_noise(private: ExperimentConfig, data_root: Path) -> None:
    """lg-fedavg: the layers that clients keep stay at the server as they were."""
    config = private.override(["method=lg-fedavg", "rounds=1"])
    before = ParameterServer(Workbench(config, data_root, CPU)).parameters
    found = run(config)
    changed = {name for name in before if not torch.equal(found.parameters[name], before[name])}
    assert changed == {"classifier.weight", "classifier.bias"}


# ---- what rounds cost --------------------------------------------------------------------------


def closed_form(rounds: int, delta: float) -> float:
    """Everyone takes part: Rényi divergence 2 a T / z² at order a, turned into epsilon."""
    orders = rdp.RdpAccountant().orders
    spent = 2 * orders * rounds / Z**2
    return float(np.min(spent + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)))


@pytest.mark.parametrize("rounds", [1, 10])
def test_without_sampling_epsilon_is_the_gaussian_mechanism_s(
    private: ExperimentConfig, rounds: int
) -> None:
    config = private.override(["fraction=1.0", "privacy.delta=1e-4"])
    found = Accountant(config).epsilon(rounds)
    assert found == pytest.approx(closed_form(rounds, 1e-4), rel=1e-12)
    rho = 2 * rounds / Z**2  # zero-concentrated privacy of sensitivity 2C, noise zC
    assert found < rho + 2 * math.sqrt(rho * math.log(1e4))


def test_a_sample_s_divergence_at_order_two_by_hand() -> None:
    """WBK 2019: log(1 + q² min(4 (e^d - 1), 2 e^d)), d = 1/s² the Gaussian's, s = z/2."""
    at_two = list(rdp.RdpAccountant().orders).index(2)
    for z in (4.0, 0.6):
        gaussian = 4 / z**2
        bound = min(4 * math.expm1(gaussian), 2 * math.exp(gaussian))
        sampled = math.log1p(0.1**2 * bound)
        expected = min(sampled, 2 * gaussian / 2)
        assert divergences(z, 100, 10)[at_two] == pytest.approx(expected, rel=1e-9)
    assert divergences(4.0, 100, 100)[at_two] == pytest.approx(2 * 2 / 4.0**2)


def test_rounds_add_up_in_any_order_of_asking(private: ExperimentConfig) -> None:
    late, early = Accountant(private), Accountant(private)
    last = late.epsilon(5)
    steps = [early.epsilon(t) for t in range(1, 6)]
    assert steps == sorted(steps)
    assert (steps[-1], late.epsilon(2)) == (last, steps[1])
    alone = divergences(Z, 20, 4)
    together, _ = rdp.compute_epsilon(rdp.RdpAccountant().orders, 5 * alone, 1e-5)
    assert last == pytest.approx(together, rel=1e-12)


def test_levels_of_their_own_are_sampled_each_by_itself(private: ExperimentConfig) -> None:
    """One of 20 clients has level a: in a round with it nothing hides that it took part."""
    config = private.override(["mix=a1-c19", "assignment=fix"])
    accountant = Accountant(config)
    with_it = [t for t in range(1, 40) if 0 in sample_cohort(config, Streams(0), t)]
    assert 0 < len(with_it) < 39
    for t in range(1, 40):
        assert accountant.drawn(t) == ((1, 1) if t in with_it else (19, 4))
    drawn_anew = config.override(["assignment=dynamic"])
    assert Accountant(drawn_anew).drawn(1) == (20, 4)
    assert Accountant(drawn_anew, own_levels=True).drawn(1)[0] < 20


def test_it_is_in_the_history_the_result_and_the_table(
    private: ExperimentConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run(private)
    accountant = Accountant(private)
    steps = [accountant.epsilon(1), accountant.epsilon(2)]
    assert found.history["epsilon"].to_pylist() == steps
    assert (found.summary["epsilon"], found.summary["delta"]) == (steps[1], 1e-5)
    assert found.history["bounded"].to_pylist()[0] > 0
    show_result(found.summary, as_json=False)
    assert f"epsilon {steps[1]:.4g} at delta 1e-05" in capsys.readouterr().out


def test_resumed_it_goes_on_with_the_same_noise_and_cost(
    private: ExperimentConfig, data_root: Path
) -> None:
    bench = Workbench(private.override(["rounds=3", "evaluate_every=0"]), data_root, CPU)
    whole = LocalBackend(bench)
    records = [Simulation(bench, whole).train(t) for t in (1, 2, 3)]
    resumed = LocalBackend(bench)
    resumed.restore(2, records[1].state.server, {})
    last = Simulation(bench, resumed).train(3)
    assert last.epsilon == records[2].epsilon
    assert fingerprint(resumed.parameters()) == fingerprint(whole.parameters())
    whole.close()
    resumed.close()


# ---- what is refused ---------------------------------------------------------------------------


def test_a_run_that_would_cost_too_much_is_refused_with_what_it_could_afford(
    private: ExperimentConfig,
) -> None:
    accountant = Accountant(private)
    target = (accountant.epsilon(3) + accountant.epsilon(4)) / 2
    config = private.override([f"privacy.target_epsilon={target}", "rounds=9"])
    with pytest.raises(ConfigError, match=r"privacy\.target_epsilon=.* the first 3 are within it"):
        settled(config)
    assert settled(config.override(["rounds=3"])).rounds == 3
    with pytest.raises(ConfigError, match="one is too many"):
        settled(config.override(["privacy.target_epsilon=0.01"]))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["server.weighting=examples"], r"server\.weighting='examples' .* must be clients"),
        (["server.robust=median"], r"server\.robust='median' .* must be none"),
        (["server.norm_bound=1"], r"server\.norm_bound=1\.0 .* must be 0"),
        (["server.bad_updates=fail"], r"server\.bad_updates='fail' .* must be reject"),
        (["privacy.delta=0.06"], r"privacy\.delta=0\.06 .* below 1/clients = 0\.05"),
        (["privacy.noise=0", "privacy.target_epsilon=1"], r"set privacy\.noise above 0"),
        (["privacy.clip=0"], r"privacy\.clip=0\.0 .* above 0"),
    ],
)
def test_settings_that_do_not_go_together(
    private: ExperimentConfig, overrides: list[str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        private.override(overrides)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["server.weighting=examples"], r"server\.weighting='examples' .* must be clients"),
        (["execution.clients_per_job=2"], r"execution\.clients_per_job=2 .* must be 1"),
        (["server.trim=0.5"], r"server\.trim=0\.5 .* at most 0\.49"),
    ],
)
def test_settings_that_do_not_go_with_robust_means(
    tiny: ExperimentConfig, overrides: list[str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        tiny.override(["server.robust=trimmed", *overrides])


@pytest.mark.parametrize("norm", ["auto", "sbn"])
def test_static_batch_norms_are_refused(private: ExperimentConfig, norm: str) -> None:
    with pytest.raises(ConfigError, match=rf"network\.norm='{norm}' .*: gn, ln, in or none"):
        run(private.override([f"network.norm={norm}"]))


@pytest.mark.parametrize("method", ["inclusivefl", "standalone", "local"])
@pytest.mark.parametrize("setting", ["privacy.noise=1", "server.robust=median"])
def test_methods_without_means_are_refused(
    tiny: ExperimentConfig, method: str, setting: str
) -> None:
    name = setting.partition("=")[0].replace(".", r"\.")
    with pytest.raises(ConfigError, match=rf"{name} is not for method={method}"):
        settled(tiny.override([f"method={method}", setting]))


def test_without_the_library_there_is_one_line(
    private: ExperimentConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'heterofl-ray\[privacy\]'"):
        preflight.check(private, [])
