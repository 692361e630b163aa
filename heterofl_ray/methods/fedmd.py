"""FedMD: D. Li, J. Wang, "FedMD: Heterogenous Federated Learning via Model Distillation", 2019.

Participants design their models independently and keep them. What they exchange is their scores of
public examples. `FedMD.run_round` is the paper's Algorithm 1.

Where we differ from the paper's text, or it leaves something open:
- a participant has an Adam for private examples, from transfer learning on, and one for digests.
  Both go on from round to round: one made anew would take its full step along every weight at each
  start, and undo more than a round brings;
- pre-training ends by the loss on a tenth of the public examples (`fedmd.patience`);
- with ``fedmd.fraction`` below 1 only the participants that a round draws communicate and digest
  in it (an extension). Transfer learning is for all, before the first round;
- the pooled bound is the same pre-trained model after ``fedmd.private_epochs`` passes over all
  participants' private examples together, as transfer learning makes over the participant's own:
  so many times more steps as there are more examples. It has no rounds, so that what a participant
  learns from public examples in rounds may take it beyond.

A participant is a client, and its model a level of its own (p0, p1, …), so that histories and
reports have its scores. The global score is the mean over participants; with it come their
baseline (the accuracy after transfer learning), the gain over it and the pooled bound.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from heterofl_ray.clients.jobs import ClientReport
from heterofl_ray.clients.participants import (
    BASELINE,
    CONSENSUS,
    POOLED,
    DigestJob,
    ParticipantJob,
    ParticipantTestJob,
    PublicScores,
    ScoreJob,
    participant_data,
)
from heterofl_ray.clients.scoring import Score
from heterofl_ray.clients.transfer import TransferJob
from heterofl_ray.clients.workbench import Workbench, resolve_device
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.evaluation import ClientModel, Evaluation, Metrics, Scores, Steps, summed_by_level
from heterofl_ray.execution.backend import Backend, Slice, State
from heterofl_ray.mixes import Level
from heterofl_ray.parameter_server import ParameterServer
from heterofl_ray.settings import describe
from heterofl_ray.simulation import Simulation
from heterofl_ray.submodels.levels import sample_cohort
from heterofl_ray.submodels.selectors import Cut

REFUSED = (
    "attack.", "privacy.", "feature_skew.",
    "server.optimizer", "server.weighting", "server.robust", "server.norm_bound",
)  # fmt: skip
"""Settings that are about averaged models, or that the public examples would not follow."""


class Consensus(ParameterServer):
    """Averages scores of public examples; it never sees a model.

    A cut of a round is the consensus of what came in that round; any other cut is empty.
    """

    divisible = False

    def __init__(self, bench: Workbench, names: Collection[str] | None = None) -> None:
        config = bench.config
        chosen = config.server.device
        device = bench.device if chosen == "auto" else resolve_device(chosen)
        shape = participant_data(bench).public.size, bench.spec.outputs
        self.parameters = {CONSENSUS: torch.zeros(shape, device=device)}
        self._sum = torch.zeros(
            shape, dtype=getattr(torch, config.server.accumulate), device=device
        )
        self._weight = 0.0

    @property
    def state(self) -> dict[str, Tensor]:
        """The last round's consensus: for whoever wants to look at it."""
        return self.parameters

    def load(self, state: Mapping[str, Tensor]) -> None:
        self.parameters[CONSENSUS].copy_(state[CONSENSUS])

    def accumulate(self, update: PublicScores) -> None:  # type: ignore[override]
        if update.scores is not None:
            self._sum.add_(update.scores.to(self._sum), alpha=update.weight)
            self._weight += update.weight

    def cut(self, cut: Cut) -> dict[str, Tensor]:
        if cut.round_number is None or not self._weight:
            return {}
        self.parameters[CONSENSUS].copy_(self._sum / self._weight)
        return {CONSENSUS: self.parameters[CONSENSUS].clone()}

    def discard(self) -> None:
        self._sum.zero_()
        self._weight = 0.0

    def commit(self, round_number: int) -> None:
        self.discard()


class FedMD(Simulation):
    server = Consensus
    averages = False
    trainers = ("plain", "channels_last")

    @classmethod
    def settle(cls, config: ExperimentConfig) -> ExperimentConfig:
        """Participants are the clients; FedMD's own settings take the place of the common ones."""
        own, usual = config.fedmd, describe(ExperimentConfig())
        for name, entry in describe(config).items():
            if name.startswith(REFUSED) and entry["default"] != usual[name]["default"]:
                fault = f"method=fedmd leaves it at {usual[name]['default']}"
                raise ConfigError.of(name, entry["default"], fault)
        if config.loss.masked == "on":
            raise ConfigError.of("loss.masked", "on", "method=fedmd has auto or off")
        changes = {
            "model": config.participants[0].model,
            "mix": "a",
            "clients": len(config.participants),
            "fraction": own.fraction,
            "local_epochs": own.revisit_epochs,
            "batch_size": own.revisit_batch,
            "lr": own.lr,
            "optimizer": {
                "name": "adam",
                "weight_decay": 0.0,
                "clip_norm": 0.0,
                "milestones": [],
            },
            "loss": {"masked": "off"},
        }
        return super().settle(config.merge(changes))

    @classmethod
    def check(cls, bench: Workbench) -> None:
        """Refuse a model that does not answer for all classes."""
        example = torch.zeros(2, *bench.spec.input_shape, device=bench.device)
        for level, text in zip(
            bench.config.levels.levels, bench.config.fedmd.participants, strict=True
        ):
            with torch.no_grad():
                found = tuple(bench.model(level).train()(example).shape)
            if found != (2, bench.spec.outputs):
                raise ConfigError.of(
                    "fedmd.participants",
                    text,
                    f"it must give {bench.spec.outputs} scores for the public and private "
                    f"classes, but two examples give {found}",
                )

    def cohort(self, t: int) -> tuple[list[int], list[Level]]:
        drawn = sample_cohort(self.config, self.bench.streams, t)
        return drawn, [self.config.levels.levels[client] for client in drawn]

    def run_round(
        self, t: int, meanwhile: Callable[[], None] | None = None
    ) -> tuple[list[ClientReport], State]:
        # Transfer learning: f_k on the public D_0, then on its private D_k
        everyone = list(range(self.config.clients))
        if len(self.backend.state.clients) < len(everyone):
            self._do(TransferJob, t - 1, everyone, None, meanwhile)
            self.backend.commit(t - 1)

        # Communicate: each party's scores f_k(x) on d_j, a random subset of D_0
        cohort, _ = self.cohort(t)
        scored = self._do(ScoreJob, t, cohort, None, meanwhile)

        # Aggregate: the consensus is the weighted mean of the f_k. Distribute it
        consensus = self.backend.cut(Cut(self.config.levels.largest, round_number=t))

        # Digest: train f_k towards the consensus on d_j. Revisit: train f_k on its private D_k
        digested = self._do(DigestJob, t, cohort, consensus, meanwhile)
        both = zip(scored, digested, strict=True)
        return [_joined(*reports) for reports in both], self.backend.commit(t)

    def _do(
        self,
        kind: type[ParticipantJob],
        t: int,
        participants: Sequence[int],
        given: Slice | None,
        meanwhile: Callable[[], None] | None,
    ) -> list[ClientReport]:
        """Have each of ``participants`` do a job with its state and what the server has given."""
        levels, kept = self.config.levels.levels, self.backend.state.clients
        nothing = self.backend.cut(Cut(self.config.levels.largest)) if given is None else given
        rate = self.config.learning_rate(max(1, t))
        work = []
        for client in participants:
            state = kept[client].tensors if client in kept else None
            work.append((kind(t, Cut(levels[client]), (client,), rate), nothing, state))
        return self.backend.train(work, meanwhile)

    def evaluation(self, levels: Sequence[Level]) -> Evaluation:
        """Of every participant's model, whatever ``levels`` are asked for."""
        nothing = self.backend.cut(Cut(self.config.levels.largest))
        kept = self.backend.state.clients
        models = [
            ClientModel(client, level, nothing, kept[client].tensors)
            for client, level in enumerate(self.config.levels.levels)
        ]
        return Evaluation(self.bench, self.backend, partial(evaluate_participants, models))


def _joined(scored: ClientReport, digested: ClientReport) -> ClientReport:
    """One report of a participant's round."""
    return replace(
        digested,
        returned=scored.returned,
        seconds=scored.seconds + digested.seconds,
        memory=max(scored.memory, digested.memory),
        rejected=scored.rejected or digested.rejected,
    )


def evaluate_participants(
    models: Sequence[ClientModel], bench: Workbench, backend: Backend
) -> Steps:
    """Test every participant's model; the means over them are the global scores."""
    tests = [(ParticipantTestJob(m.level, m.client), m.parameters, m.state) for m in models]
    levels = [model.level for model in models]
    totals = summed_by_level(levels, (yield backend.test(tests)))

    def metrics(scores: Mapping[str, Score]) -> Metrics:
        info = bench.data.dataset.info
        found = {name: score.metrics(info) for name, score in scores.items()}
        now, before = found["global"], found[BASELINE]["accuracy"]
        compared = {"baseline": before, "gain": now["accuracy"] - before}
        if POOLED in found:
            compared["pooled"] = found[POOLED]["accuracy"]
        return now | compared

    def local(scores: Mapping[str, Score]) -> Metrics:
        return scores["local"].metrics(bench.data.dataset.info) if "local" in scores else {}

    return {whose: Scores(metrics(found), local(found), None) for whose, found in totals.items()}
