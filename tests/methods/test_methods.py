"""Every method runs by its name, and is what it says it is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from heterofl_ray import presets, run
from heterofl_ray.cli import main
from heterofl_ray.clients.group_sum import GroupUpdate
from heterofl_ray.clients.jobs import TrainJob
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.methods.local_steps import Fjord
from heterofl_ray.methods.personal import private_names
from heterofl_ray.methods.registry import METHODS, resolve
from heterofl_ray.models.layout import Fixed
from heterofl_ray.parameter_server import ParameterServer
from heterofl_ray.result import RunResult
from heterofl_ray.runner import make_backend, make_bench, settled
from heterofl_ray.simulation import RoundRecord
from heterofl_ray.state import fingerprint, flat
from heterofl_ray.submodels.levels import assign_levels, sample_cohort
from heterofl_ray.submodels.selectors import Cut

OURS = [name for name, where in METHODS.items() if isinstance(where, str)]


def of(config: ExperimentConfig, method: str, *overrides: str) -> RunResult:
    return run(config.override([f"method={method}", *overrides]))


def sha(config: ExperimentConfig, *overrides: str) -> str:
    digest: str = run(config.override(overrides)).summary["model_sha256"]
    return digest


def records(config: ExperimentConfig, root: Path) -> list[RoundRecord]:
    config = settled(config)
    bench = make_bench(config, root)
    backend = make_backend(bench)
    try:
        return list(resolve(config.method)(bench, backend).rounds())
    finally:
        backend.close()


@pytest.mark.parametrize("method", OURS)
def test_each_runs_on_the_embedded_digits_as_it_is(method: str) -> None:
    """With as many levels, blocks and participants as the preset has; only less of each."""
    small = (
        "rounds=2", "local_epochs=1", "network.hidden=[4,8,8,8]", "evaluate_every=0",
        "fedmd.pretrain_epochs=1", "fedmd.private_epochs=1", "fedmd.revisit_epochs=1",
    )  # fmt: skip
    result = of(presets.digits_dynamic(), method, *small)
    assert 0 <= result.summary["global"]["accuracy"] <= 100
    again = RunResult.open(Path(result.summary["run_dir"]))
    assert again.summary["model_sha256"] == result.summary["model_sha256"]


def test_five_levels_of_the_digits_preset_have_depths_of_their_own() -> None:
    """Four blocks for five levels: the two largest are one device type."""
    levels = settled(presets.digits_dynamic().override(["method=inclusivefl"])).levels.levels
    assert {level.name: level.depth for level in levels} == {"a": 4, "b": 4, "c": 3, "d": 2, "e": 1}
    assert {level.rate for level in levels} == {1.0}


@pytest.mark.parametrize("method", ["lg-fedavg", "random", "fjord", "fedprox"])
def test_they_take_text_too(tiny_text: ExperimentConfig, method: str) -> None:
    assert of(tiny_text, method, "rounds=1").summary["global"]["perplexity"] > 1


# ---- one size ------------------------------------------------------------------------------


def test_fedavg_is_heterofl_with_the_largest_level_alone(tiny: ExperimentConfig) -> None:
    expected = sha(tiny, "mix=a")
    assert sha(tiny, "method=fedavg") == sha(tiny, "method=alllarge") == expected
    assert sha(tiny, "method=fedavg", "mix=a3-c7", "assignment=fix") == expected


def test_allsmall_is_heterofl_with_the_smallest_level_alone(tiny: ExperimentConfig) -> None:
    assert sha(tiny, "method=allsmall") == sha(tiny, "mix=c")
    rates = tiny.override(["method=allsmall", "mix=1.0:0.5,0.3333333333:0.5"])
    assert settled(rates).levels.largest.rate == 0.3333333333


def test_a_settled_config_stays_as_it_is(tiny: ExperimentConfig) -> None:
    for method in OURS:
        once = settled(tiny.override([f"method={method}"]))
        assert settled(once) == once
    by_level = tiny.override(["execution.trainer=a=plain,c=compiled", "method=fedavg"])
    assert settled(by_level).execution.trainer == "plain"


def test_dropweak_has_the_strong_of_every_cohort(tiny: ExperimentConfig, data_root: Path) -> None:
    config = tiny.override(["method=dropweak", "rounds=6", "evaluate_every=0", "mix=a1-c4"])
    bench = make_bench(config, data_root)
    sizes = []
    for record in records(config, data_root):
        t = record.round_number
        cohort = sample_cohort(config, bench.streams, t)
        levels = assign_levels(config, bench.streams, t, cohort)
        strong = [c for c, level in zip(cohort, levels, strict=True) if level.name == "a"]
        assert [report.client for report in record.reports] == strong
        assert {report.level for report in record.reports} <= {"a"}
        sizes.append(len(strong))
    assert 0 < sum(sizes) < config.cohort_size * config.rounds
    assert 0 in sizes, "no round without anybody: choose another seed"


def test_a_round_without_anybody_leaves_the_model(tiny: ExperimentConfig) -> None:
    """A client of 20 is strong, and seed 0 never draws it in two rounds."""
    nobody = of(tiny, "dropweak", "mix=a1-c99", "rounds=2")
    assert nobody.summary["megabytes_down"] == 0
    assert nobody.history["clients_a"].to_pylist() == [0, 0]
    assert list(nobody.summary["levels"]) == ["a"]


# ---- personal models -----------------------------------------------------------------------


def test_standalone_is_every_client_alone(tiny: ExperimentConfig, data_root: Path) -> None:
    """The models of those who took part are what training them alone, round by round, gives."""
    config = tiny.override(["method=standalone", "rounds=3", "fraction=0.5"])
    result = run(config)
    bench = make_bench(settled(config), data_root)
    cut = Cut(config.levels.largest)
    start = ParameterServer(bench).cut(cut)
    models = {}
    for t in range(1, 4):
        for client in sample_cohort(config, bench.streams, t):
            job = TrainJob(t, cut, (client,), config.learning_rate(t))
            _, update = job.run(bench, models.get(client, start))
            models[client] = update.sums
    assert set(result.clients) == set(models)
    for client, parameters in models.items():
        assert all(torch.equal(result.clients[client][n], p) for n, p in parameters.items())
    assert all(torch.equal(result.parameters[name], tensor) for name, tensor in start.items())
    assert result.summary["megabytes_down"] == result.summary["megabytes_up"] == 0


def test_local_has_each_clients_own_level_for_the_whole_run(
    tiny: ExperimentConfig, data_root: Path
) -> None:
    config = tiny.override(["method=local", "rounds=6", "fraction=0.5", "evaluate_every=0"])
    levels: dict[int, set[str]] = {}
    for record in records(config, data_root):
        for report in record.reports:
            levels.setdefault(report.client, set()).add(report.level)
    assert all(len(names) == 1 for names in levels.values())
    assert set.union(*levels.values()) == {"a", "c"}


def test_the_scores_of_personal_models_are_means_over_clients(tiny: ExperimentConfig) -> None:
    result = of(tiny, "local", "partition=classes:2", "local_epochs=3", "rounds=3")
    summary = result.summary
    counts = {"a": 0, "c": 0}
    for state in result.clients.values():
        counts["a" if state["blocks.0.bias"].numel() == 8 else "c"] += 1
    mean = sum(summary["levels"][name]["accuracy"] * n for name, n in counts.items())
    assert summary["global"]["accuracy"] == pytest.approx(mean / len(result.clients))
    # two classes of ten are known to each client, and tested by themselves
    assert summary["global"]["accuracy"] < 25
    assert summary["local"]["accuracy"] > 60
    last = result.history.to_pylist()[-1]
    assert last["global_accuracy"] == summary["global"]["accuracy"]
    assert last["level_c_accuracy"] == summary["levels"]["c"]["accuracy"]


def test_a_run_of_personal_models_gives_no_global_model(tiny: ExperimentConfig) -> None:
    result = of(tiny, "standalone", "rounds=1")
    for source in (result, RunResult.open(Path(result.summary["run_dir"]))):
        assert set(source.clients) == set(result.clients)
        with pytest.raises(ConfigError, match="clients keep layers to themselves"):
            source.global_model()


def test_lg_fedavg_shares_the_head_or_all_but_the_head(
    tiny: ExperimentConfig, data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen in what the server is sent, in its model, in what clients keep and in the bytes."""
    config = tiny.override(["method=lg-fedavg", "rounds=2", "fraction=1.0", "clients=4"])
    head = {"classifier.weight", "classifier.bias"}
    start = ParameterServer(make_bench(config, data_root)).parameters
    sent: list[set[str]] = []
    accumulate = ParameterServer.accumulate

    def noting(self: ParameterServer, update: GroupUpdate) -> None:
        sent.append(set(update.sums))
        accumulate(self, update)

    monkeypatch.setattr(ParameterServer, "accumulate", noting)
    for split in ("representation", "head"):
        sent.clear()
        result = run(config.override([f"lg.private={split}"]))
        shared = {name for name in start if (name in head) == (split == "representation")}
        assert sent == [shared] * (2 * 4)  # rounds of four clients
        assert {n for n, t in result.parameters.items() if not torch.equal(t, start[n])} == shared
        assert all(set(state) == set(start) - shared for state in result.clients.values())
        moved = result.history.to_pylist()
        assert moved[0]["megabytes_down"] > moved[0]["megabytes_up"]  # everyone's first time
        assert moved[1]["megabytes_down"] == moved[1]["megabytes_up"] == moved[0]["megabytes_up"]


def test_lg_fedavg_may_begin_from_a_fedavg_model(tiny: ExperimentConfig, data_root: Path) -> None:
    config = tiny.override(["mix=a", "rounds=3", "evaluate_every=0"])
    warm = config.override(["method=lg-fedavg", "lg.warmup=2"])
    whole, mixed = records(config, data_root), records(warm, data_root)
    for before, after in zip(whole[:2], mixed[:2], strict=True):
        assert all(torch.equal(after.state.server[n], t) for n, t in before.state.server.items())
        assert not after.state.clients
    assert mixed[2].state.clients
    assert mixed[2].megabytes_up < mixed[1].megabytes_up
    # in round 3 a client begins with FedAvg's layers and ends where FedAvg's clients do
    fedavg_mean = whole[2].state.server["classifier.bias"]
    assert torch.equal(mixed[2].state.server["classifier.bias"], fedavg_mean)


def test_the_head_is_the_last_layers() -> None:
    layout = {name: (Fixed(1),) for name in ("a.weight", "a.bias", "b.0.weight", "c.weight")}
    assert private_names(layout, 1, keep_head=True) == {"c.weight"}
    assert private_names(layout, 2, keep_head=False) == {"a.weight", "a.bias"}
    with pytest.raises(ConfigError, match=r"lg\.head=3 .*the model has 3 layers"):
        private_names(layout, 3, keep_head=True)


def test_a_head_that_is_the_whole_model_is_refused_before_anything_is_written(
    tiny: ExperimentConfig, tmp_path: Path
) -> None:
    config = tiny.override(["method=lg-fedavg", "lg.head=99", f"tracking.root={tmp_path}/runs"])
    with pytest.raises(ConfigError, match=r"lg\.head=99"):
        run(config)
    assert not (tmp_path / "runs").exists()


# ---- other local steps ---------------------------------------------------------------------


def test_fedprox_without_pull_is_fedavg(tiny: ExperimentConfig) -> None:
    plain = sha(tiny, "mix=a", "execution.trainer=plain")
    still = ("method=fedprox", "fedprox.mu=0")
    assert sha(tiny, *still, "execution.trainer=plain") == plain
    assert sha(tiny, *still) == sha(tiny, "mix=a", "execution.trainer=channels_last")
    assert sha(tiny, "method=fedprox", "fedprox.mu=1") != plain


def test_fjord_with_one_level_is_fedavg(tiny: ExperimentConfig) -> None:
    one = ("mix=a", "execution.trainer=plain")
    assert sha(tiny, *one, "method=fjord") == sha(tiny, *one)
    assert sha(tiny, "method=fjord") != sha(tiny, "method=fjord", "fjord.distillation=0.5")


@pytest.mark.parametrize(
    ("method", "trainer", "valid"),
    [
        ("fedprox", "compiled", "channels_last or plain"),
        ("fjord", "vectorised", "plain"),
        ("fjord", "a=plain,c=channels_last", "plain"),
        ("fjord", "measure", "plain"),
    ],
)
def test_a_trainer_that_does_not_know_the_step_is_refused(
    tiny: ExperimentConfig, method: str, trainer: str, valid: str
) -> None:
    config = tiny.override([f"method={method}", f"execution.trainer={trainer}"])
    with pytest.raises(ConfigError, match=rf"execution\.trainer=.*method={method} is for {valid}"):
        run(config)


def test_numbers_are_not_distilled(tmp_path: Path, data_root: Path) -> None:
    rows = "".join(f"so many\tas {n % 6}\t{n % 6}.0\n" for n in range(60))
    for part in ("train", "dev"):
        (tmp_path / f"{part}.tsv").write_text("sentence1\tsentence2\tscore\n" + rows)
    assert main(["data", "import", str(tmp_path), "--name", "amounts"]) == 0
    small = ["data=amounts", "model=encoder", "method=fjord", "mix=a-b", "clients=4"]
    config = settled(ExperimentConfig().override(small))
    make_bench(config, data_root)
    with pytest.raises(ConfigError, match=r"fjord\.distillation=0\.5 .*0 for data=amounts, whose"):
        make_bench(config.override(["fjord.distillation=0.5"]), data_root)


def test_fjords_flops_are_the_mean_over_the_widths_it_draws(tiny: ExperimentConfig) -> None:
    forward = {"a": 100.0, "c": 10.0}
    assert Fjord.example_flops(tiny, "a", forward) == 55.0
    assert Fjord.example_flops(tiny, "c", forward) == 10.0
    taught = tiny.override(["fjord.distillation=0.5"])
    assert Fjord.example_flops(taught, "a", forward) == (100 + 110) / 2


# ---- server optimisers ---------------------------------------------------------------------


def test_every_optimiser_is_another_run_and_none_is_none(tiny: ExperimentConfig) -> None:
    quick = tiny.override(["evaluate_every=0"])
    digests = {sha(quick, f"server.optimizer={kind}") for kind in ("none", "avgm", "adam", "yogi")}
    assert len(digests) == 4
    assert sha(quick) in digests
    # one step of length 1 with nothing remembered is the mean, but for rounding
    result = run(quick.override(["server.optimizer=avgm", "server.beta1=0", "server.lr=1"]))
    plain = run(quick)
    for name, tensor in plain.parameters.items():
        assert torch.allclose(result.parameters[name], tensor, rtol=1e-3, atol=1e-4)


KINDS = ("none", "avgm", "adam", "yogi")
NOTHING_SHARED = ("standalone", "local")


def trained(config: ExperimentConfig, root: Path) -> tuple[str, str]:
    """What the server and the clients have after the last round, untested."""
    config = settled(config)
    bench = make_bench(config, root)
    backend = make_backend(bench)
    try:
        parameters, clients = resolve(config.method)(bench, backend).final()
    finally:
        backend.close()
    return fingerprint(parameters), fingerprint(flat(clients))


@pytest.mark.parametrize("method", [name for name in OURS if name != "fedmd"])
def test_every_method_takes_every_server_optimiser(
    tiny: ExperimentConfig, method: str, data_root: Path
) -> None:
    """All but FedMD, which has no model at the server and refuses them (`test_fedmd`)."""
    config = tiny.override([f"method={method}", "network.hidden=[4,4]", "clients=60"])
    found = {
        kind: trained(config.override([f"server.optimizer={kind}"]), data_root) for kind in KINDS
    }
    servers = {server for server, _ in found.values()}
    if method in NOTHING_SHARED:
        assert len(set(found.values())) == 1, "there is nothing to optimise"
    elif method == "inclusivefl":
        assert len(servers) == 3
        assert found["none"] == found["adam"], "the paper's is its own"
    else:
        assert len(servers) == len(KINDS)
