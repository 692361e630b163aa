"""Transfer learning, which every participant of FedMD begins with, and the bound it is held to."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch.nn import functional as F

from heterofl_ray.clients.calibration import needs_calibration
from heterofl_ray.clients.early_stopping import EarlyStopping
from heterofl_ray.clients.jobs import CalibrateJob, EvaluateJob, Parameters, naming
from heterofl_ray.clients.participants import (
    BASELINE,
    BESIDE,
    POOLED,
    PRIVATE,
    ParticipantJob,
    PublicScores,
    Tensors,
    answers,
    as_tensor,
    batches_of,
    is_finite,
    memory_state,
    own_copy,
    participant_data,
)
from heterofl_ray.clients.scoring import Score
from heterofl_ray.clients.workbench import Workbench
from heterofl_ray.data.images import ImageClients
from heterofl_ray.data.participants import LEARN, ParticipantImages
from heterofl_ray.models import registry
from heterofl_ray.models.layers import assign, parameters_of


@dataclass(frozen=True)
class TransferJob(ParticipantJob):
    """Train a new model on the public examples, then on the participant's private ones.

    The new state holds the model with its test score, the baseline; and where it is asked for the
    score of the same pre-trained model after training on everybody's private examples.
    """

    @property
    def keeps(self) -> int:
        return 1

    def run(
        self, bench: Workbench, parameters: Parameters, *states: Parameters | None
    ) -> tuple[Any, ...]:
        data, settings = participant_data(bench), bench.config.fedmd
        started, everyone = time.perf_counter(), len(data.train.indices)
        with naming(self.client, self.level, self.round_number):
            pretrained = self.pretrain(bench, data)
            beside = {}
            if settings.pooled:
                self.train_privately(bench, data.together, 0, pretrained, "pooled", {})
                beside[POOLED] = self.test(bench, 0, everyone)
            memory: Tensors = {}
            loss = self.train_privately(bench, data, self.client, pretrained, "private", memory)
            own = own_copy(bench.model(self.level)) | memory_state(memory, PRIVATE)
            start, stop = (int(n) for n in data.train.offsets[self.client : self.client + 2])
            beside[BASELINE] = self.test(bench, start, stop)
            if not is_finite(own):
                raise ValueError("transfer learning gave a model that is not finite")
        report = self.report(bench, loss, started)
        kept = {BESIDE + name: as_tensor(score) for name, score in beside.items()}
        return [report], PublicScores(None), own | kept

    def pretrain(self, bench: Workbench, data: ParticipantImages) -> Parameters:
        """The model after its training on public examples."""
        model, settings, public = bench.model(self.level), bench.config.fedmd, data.public
        with bench.streams.layers("initial-model", client=self.client):
            fresh = registry.build(bench.spec.at(self.level), self.level.rate)
        assign(model, parameters_of(fresh))
        if not settings.pretrain_epochs:
            return own_copy(model)
        passes = self.passes(bench, public, LEARN, settings.pretrain_batch, "public")
        held_out = public.checked()
        if not len(held_out):
            batches = (batch for _ in range(settings.pretrain_epochs) for batch in next(passes))
            self.learn(bench, batches, bench.objective(None), "public")
            return own_copy(model)

        def loss() -> float:
            found = answers(bench, model, partial(batches_of, bench, data, held_out))
            truth = public.dataset.train.labels[held_out].to(found.device)
            return float(F.cross_entropy(found, truth))

        course = EarlyStopping(
            model, lambda: next(passes), loss, settings.pretrain_epochs, settings.patience
        )
        self.learn(bench, course.batches(), bench.objective(None), "public")
        return course.best or own_copy(model)

    def train_privately(
        self,
        bench: Workbench,
        data: ImageClients,
        holder: int,
        start: Parameters,
        purpose: str,
        memory: Tensors,
    ) -> float:
        assign(bench.model(self.level), start)
        epochs = bench.config.fedmd.private_epochs
        return self.learn_private(bench, data, holder, epochs, f"transfer-{purpose}", memory)

    def test(self, bench: Workbench, start: int, stop: int) -> Score:
        """Of the resident model, with the statistics of private examples ``start`` to ``stop``."""
        model = bench.model(self.level)
        own, moments = own_copy(model), None
        if needs_calibration(model):
            moments = CalibrateJob(self.level, start, stop).run(bench, own)
        return EvaluateJob(self.level, 0, bench.data.test_size).run(bench, own, moments)["global"]
