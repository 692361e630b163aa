"""FedMD: the consensus and digest by hand, a naive oracle, and that everybody gains."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
import torch
from torch import nn

from heterofl_ray import presets, register_model, run
from heterofl_ray.cli import main
from heterofl_ray.clients.participants import (
    CONSENSUS,
    DigestJob,
    PublicScores,
    ScoreJob,
    digest_objective,
    participant_data,
)
from heterofl_ray.clients.transfer import TransferJob
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ClientError, ConfigError
from heterofl_ray.method_settings import FedMDConfig
from heterofl_ray.methods.fedmd import Consensus
from heterofl_ray.models import registry
from heterofl_ray.result import RunResult
from heterofl_ray.runner import make_bench, settled
from heterofl_ray.submodels.levels import sample_cohort
from heterofl_ray.submodels.selectors import Cut

from .fedmd_oracle import fedmd

CPU = torch.device("cpu")


def make(*overrides: str) -> ExperimentConfig:
    """A run of a second or two: two participants, few public examples, hardly any training."""
    small = [
        "method=fedmd", "rounds=2", "evaluate_every=0", "fedmd.public_size=60",
        "fedmd.participants=[party:4-8:0, mlp:16]", "fedmd.pretrain_epochs=1",
        "fedmd.private_epochs=1", "fedmd.revisit_epochs=1", "fedmd.digest_batch=25",
    ]  # fmt: skip
    return ExperimentConfig().override([*small, *overrides])


def bench_of(config: ExperimentConfig, root: Path) -> Workbench:
    return make_bench(settled(config), root)


# ---- the consensus -------------------------------------------------------------------------


def consensus(server: Consensus) -> torch.Tensor:
    level = server.level  # type: ignore[attr-defined]
    return server.cut(Cut(level, round_number=1))[CONSENSUS]


@pytest.fixture
def server(data_root: Path) -> Consensus:
    bench = bench_of(make("fedmd.public_size=2"), data_root)
    found = Consensus(bench)
    found.level = bench.config.levels.largest  # type: ignore[attr-defined]
    return found


def rows(*values: float) -> torch.Tensor:
    """Scores of two public examples: these for the first, their negatives for the second."""
    full = torch.zeros(2, 10)
    full[0, : len(values)] = torch.tensor(values)
    full[1] = -full[0]
    return full


def test_the_consensus_is_the_weighted_mean_of_the_scores(server: Consensus) -> None:
    server.accumulate(PublicScores(rows(8, -4, 1), 1.0))
    server.accumulate(PublicScores(rows(0, 2, 5), 3.0))
    # (1 * 8 + 3 * 0) / 4, (-4 + 6) / 4, (1 + 15) / 4
    assert torch.equal(consensus(server), rows(2, 0.5, 4))
    server.discard()
    server.accumulate(PublicScores(rows(1, 2), 1.0))
    server.accumulate(PublicScores(rows(3, 5), 1.0))
    assert torch.equal(consensus(server), rows(2, 3.5))


def test_weight_zero_and_left_out_scores_do_not_count(server: Consensus) -> None:
    server.accumulate(PublicScores(None))
    server.accumulate(PublicScores(rows(100), 0.0))
    assert server.cut(Cut(server.level, round_number=1)) == {}  # type: ignore[attr-defined]
    server.accumulate(PublicScores(rows(6), 0.5))
    assert torch.equal(consensus(server), rows(6))


def test_a_commit_ends_the_round_and_keeps_its_consensus(server: Consensus) -> None:
    server.accumulate(PublicScores(rows(6), 2.0))
    consensus(server)
    server.commit(1)
    assert torch.equal(server.state[CONSENSUS], rows(6))
    assert server.cut(Cut(server.level, round_number=2)) == {}  # type: ignore[attr-defined]
    server.accumulate(PublicScores(rows(1), 1.0))
    assert torch.equal(consensus(server), rows(1)), "the round before is still in it"
    server.load({CONSENSUS: rows(7)})
    assert torch.equal(server.state[CONSENSUS], rows(7))
    assert server.cut(Cut(server.level)) == {}, "no participant is sent a model"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("digest", "expected"),
    [
        ("mae", (1 + 3 + 0 + 2) / 4),
        ("mse", (1 + 9 + 0 + 4) / 4),
        # T = 2: softmax(0, ln 9 / 2) = (1/4, 3/4) is wanted, softmax(0, 0) = (1/2, 1/2) is said
        ("kl", 4 * (0.25 * torch.tensor(0.5).log() + 0.75 * torch.tensor(1.5).log()).item()),
    ],
)
def test_digest_losses_by_hand(digest: str, expected: float) -> None:
    distance = digest_objective(FedMDConfig(digest=digest, temperature=2.0))
    if digest == "kl":
        nine = torch.tensor(9.0).log().item()
        said, wanted = torch.zeros(2, 2), torch.tensor([[0.0, nine], [0.0, nine]])
    else:
        said = torch.tensor([[1.0, -1.0], [4.0, 0.0]])
        wanted = torch.tensor([[2.0, 2.0], [4.0, -2.0]])
    assert distance(said, wanted).item() == pytest.approx(expected, abs=1e-6)


# ---- rounds --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("fedmd.weights=[1, 3]", "fedmd.digest=mse", "fedmd.digest_epochs=2"),
        ("fedmd.fraction=0.5", "rounds=3", "partition=classes:3", "fedmd.private_per_class=2"),
    ],
    ids=["equal", "weighted", "partial"],
)
def test_a_run_is_what_the_naive_oracle_does(overrides: tuple[str, ...], data_root: Path) -> None:
    config = settled(make("fedmd.patience=0", "fedmd.pooled=false", *overrides))
    result = run(config)
    bench = make_bench(config, data_root)
    rounds = range(1, config.rounds + 1)
    cohorts = [sample_cohort(config, bench.streams, t) for t in rounds]
    assert {len(cohort) for cohort in cohorts} == {1 if config.fraction < 1 else 2}
    models, found = fedmd(bench, cohorts)
    assert torch.allclose(result.parameters[CONSENSUS], found[-1], rtol=1e-5, atol=1e-6)
    for k, model in enumerate(models):
        for name, expected in model.named_parameters():
            assert torch.allclose(result.clients[k][name], expected, rtol=1e-4, atol=1e-6), name


def test_only_scores_of_public_examples_are_sent(data_root: Path) -> None:
    """Asserted on what leaves each job, but for what stays with its participant."""
    bench = bench_of(make(), data_root)
    level = bench.config.levels.largest
    (report,), sent, state = TransferJob(0, Cut(level), (0,), 0.001).run(bench, {}, None)
    assert sent.scores is None
    (report,), sent = ScoreJob(1, Cut(level), (0,), 0.001).run(bench, {}, state)
    assert sent.scores.shape == (60, 10)
    assert (report.moved, report.returned) == (0, 600)
    model = bench.model(level).eval()
    public = participant_data(bench).public
    ((images, _),) = public.batches(public.drawn(1), 60, CPU)
    assert torch.allclose(sent.scores, model(images), atol=1e-5), "logits, without dropout"
    digest = DigestJob(1, Cut(level), (0,), 0.001)
    (report,), sent, new = digest.run(bench, {CONSENSUS: sent.scores}, state)
    assert sent == PublicScores(None)
    assert (report.moved, report.returned) == (600, 0)
    assert set(state) < set(new)
    assert {name.rsplit("/", 1)[0] for name in set(new) - set(state)} == {
        f"optimizer/public/{name}" for name in dict(bench.model(level).named_parameters())
    }
    assert not torch.equal(new["classifier.weight"], state["classifier.weight"])
    _, _, same = digest.run(bench, {CONSENSUS: torch.zeros(60, 10)}, state)
    assert not torch.equal(same["classifier.weight"], new["classifier.weight"])


def test_bytes_are_those_of_the_scores() -> None:
    result = run(make())
    each = 2 * 60 * 10 * 4 / 1024**2  # participants, public examples, classes, bytes
    assert result.history["megabytes_down"].to_pylist() == pytest.approx([each, each])
    assert result.history["megabytes_up"].to_pylist() == pytest.approx([each, each])


def test_with_a_part_of_the_participants_the_others_wait(data_root: Path) -> None:
    config = settled(make("fedmd.fraction=0.5", "rounds=1"))
    bench = make_bench(config, data_root)
    (taken,) = sample_cohort(config, bench.streams, 1)
    before, after = (run(config.override([f"rounds={n}"])) for n in (1, 2))
    (next_one,) = sample_cohort(config, bench.streams, 2)
    same = {
        k: all(torch.equal(before.clients[k][n], t) for n, t in after.clients[k].items())
        for k in range(2)
    }
    assert same == {k: k != next_one for k in range(2)}
    assert before.history["clients_p0"].to_pylist() == [int(taken == 0)]


def test_scores_that_are_not_finite_are_left_out(data_root: Path) -> None:
    bench = bench_of(make(), data_root)
    level = bench.config.levels.largest
    *_, state = TransferJob(0, Cut(level), (0,), 0.001).run(bench, {}, None)
    broken = {**state, "classifier.bias": state["classifier.bias"] / 0}
    (report,), sent = ScoreJob(1, Cut(level), (0,), 0.001).run(bench, {}, broken)
    assert report.rejected == "its scores are not finite"
    assert sent == PublicScores(None)
    (report,), _, kept = DigestJob(1, Cut(level), (0,), 0.001).run(bench, {}, broken)
    assert report.rejected == "its model is not finite"
    assert kept is None
    strict = bench_of(make("server.bad_updates=fail"), data_root)
    for job in (ScoreJob, DigestJob):
        with pytest.raises(ClientError, match=r"client 0 at level p0 .* not finite"):
            job(1, Cut(level), (0,), 0.001).run(strict, {}, broken)


def test_transfer_learning_that_fails_ends_the_run() -> None:
    with pytest.raises(ClientError, match=r"client 0 at level p0 .* not finite"):
        run(make("fedmd.lr=1e30", "fedmd.patience=0"))


# ---- whose models --------------------------------------------------------------------------


class Users(nn.Module):
    """A user's own, which knows nothing of rates."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.head = nn.Linear(64, outputs)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.head(images.flatten(1))
        return found


@pytest.fixture
def users_models() -> Iterator[None]:
    with mock.patch.dict(registry.MODELS):
        register_model("users", lambda rate: Users(10))
        register_model("short", lambda rate: Users(6))
        yield


@pytest.mark.usefixtures("users_models")
def test_any_registered_model_takes_part() -> None:
    """A user's own, and ours with static batch norms."""
    models = "fedmd.participants=[users, conv:4-8, preresnet18:4-4-4-4, party:4]"
    result = run(make(models, "evaluate_every=1"))
    assert list(result.summary["levels"]) == ["p0", "p1", "p2", "p3"]
    own = {name for name in result.clients[0] if not name.startswith("optimizer/")}
    assert own == {"head.weight", "head.bias", "scores/baseline", "scores/pooled"}
    assert isinstance(result.submodel("p0"), Users)
    again = RunResult.open(Path(result.summary["run_dir"]))
    for name, parameter in again.submodel("p3").named_parameters():
        assert torch.equal(parameter, result.clients[3][name])
    with pytest.raises(ConfigError, match="no global model"):
        again.global_model()


@pytest.mark.usefixtures("users_models")
def test_models_must_answer_for_all_classes() -> None:
    with pytest.raises(ConfigError, match=r"fedmd.participants='short'.*10 scores.*\(2, 6\)"):
        run(make("fedmd.participants=[users, short]"))


def test_a_settled_config_stays_as_it_is() -> None:
    once = settled(presets.digits_dynamic().override(["method=fedmd"]))
    assert settled(once) == once
    assert (once.clients, once.cohort_size, once.lr) == (5, 5, 0.001)
    assert (once.optimizer.name, once.local_epochs, once.batch_size) == ("adam", 4, 5)


def test_the_rate_of_a_preset_for_other_methods_does_not_fall() -> None:
    base = presets.mnist_dynamic()
    assert base.learning_rate(1) > base.learning_rate(base.rounds)
    own = settled(base.override(["method=fedmd"]))
    assert {own.learning_rate(t) for t in (1, 101, own.rounds)} == {own.fedmd.lr}


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        (["loss.masked=on"], "loss.masked='on'"),
        (["feature_skew.noise=0.1"], "feature_skew.noise=0.1.*leaves it at 0.0"),
        (["server.optimizer=adam"], "server.optimizer='adam'.*leaves it at none"),
        (["server.weighting=examples"], "server.weighting='examples'"),
        (["server.robust=median"], "server.robust='median'"),
        (["privacy.noise=1"], "privacy.noise=1"),
        (["attack.kind=sign_flip"], "attack.kind='sign_flip'"),
        (["execution.trainer=compiled"], "execution.trainer='compiled'"),
        (["data=pydocs", "model=transformer"], "it is for images"),
    ],
)
def test_what_it_cannot_do_is_refused(overrides: list[str], why: str, data_root: Path) -> None:
    with pytest.raises(ConfigError, match=why):
        bench_of(make(*overrides), data_root).data  # noqa: B018


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("fedmd.participants=[partie:8]", "model in fedmd.participants='partie'"),
        ("fedmd.participants=[transformer]", "model in fedmd.participants='transformer'"),
        ("fedmd.public=mnits", "fedmd.public='mnits'"),
        ("fedmd.public=pydocs", "fedmd.public='pydocs'"),
        ("fedmd.digest=l1", "fedmd.digest='l1'"),
    ],
)
def test_wrong_names_are_answered_in_a_line(
    setting: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "digits-dynamic", "--set", "method=fedmd", "--set", setting]) == 2
    shown = capsys.readouterr().err
    assert why in shown
    assert shown.count("\n") == 1


# ---- what it is for ------------------------------------------------------------------------


def test_everybody_gains_by_collaborating(capsys: pytest.CaptureFixture[str]) -> None:
    """Five different CNNs have three of each digit; the other digits are public."""
    result = run(presets.load("fedmd-digits"))
    levels = result.summary["levels"]
    sizes = {sum(t.numel() for t in state.values()) for state in result.clients.values()}
    assert len(sizes) == len(levels) == 5, "they are five different models"
    for name, scores in levels.items():
        assert scores["accuracy"] > scores["baseline"], name
        assert scores["gain"] == pytest.approx(scores["accuracy"] - scores["baseline"])
        model = result.submodel(name)
        assert _accuracy(model) == pytest.approx(scores["accuracy"])
    overall = result.summary["global"]
    for name in ("accuracy", "baseline", "gain", "pooled"):
        mean = sum(scores[name] for scores in levels.values()) / len(levels)
        assert overall[name] == pytest.approx(mean)
    assert overall["gain"] > 5
    assert overall["pooled"] > overall["accuracy"]
    assert result.history["global_baseline"].to_pylist()[-1] == overall["baseline"]
    with capsys.disabled():
        print(f"\nFedMD on digits: mean gain {overall['gain']:.1f}, from", end=" ")
        print(f"{overall['baseline']:.1f} to {overall['accuracy']:.1f}", end="; ")
        print(f"pooled bound {overall['pooled']:.1f}")


def _accuracy(model: nn.Module) -> float:
    """Worked out from the data set as it is."""
    from heterofl_ray.data.places import data_dir
    from heterofl_ray.data.sources import load

    digits = load("digits", data_dir())
    images = digits.test.images.float()
    scale = 255 if digits.test.images.dtype == torch.uint8 else 1
    mean, std = (torch.tensor(v).view(-1, 1, 1) for v in (digits.info.mean, digits.info.std))
    with torch.no_grad():
        said = model((images / scale - mean) / std).argmax(-1)
    return 100 * float((said == digits.test.labels).double().mean())


def test_the_command_prints_gain_and_bound(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "digits-dynamic", "--quiet"]
    for text in ("method=fedmd", "rounds=1", "fedmd.pretrain_epochs=1", "fedmd.private_epochs=1"):
        words += ["--set", text]
    assert main(words) == 0
    shown = capsys.readouterr().out
    for word in ("accuracy", "baseline", "gain", "pooled", "p0", "p4"):
        assert word in shown
