"""Running an experiment from its config, or from its last checkpoint, to a `RunResult`."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from torch import Tensor, nn

from heterofl_ray import checkpoint, preflight, presets
from heterofl_ray.clients.calibration import Moments, needs_calibration
from heterofl_ray.clients.trainers.choice import chosen, not_yet_compiled
from heterofl_ray.clients.trainers.measuring import measured
from heterofl_ray.clients.workbench import Workbench, resolve_device
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.places import data_dir as data_place
from heterofl_ray.data.places import stored
from heterofl_ray.errors import ConfigError, DataError, Interrupted
from heterofl_ray.evaluation import Scores
from heterofl_ray.execution.backend import Backend
from heterofl_ray.execution.local import LocalBackend
from heterofl_ray.keeping import CHECKPOINTS, Keeper
from heterofl_ray.methods.registry import resolve
from heterofl_ray.models import registry
from heterofl_ray.progress import Progress, Silent
from heterofl_ray.result import RunResult, summarise
from heterofl_ray.settings import load_run_yaml, settings_of
from heterofl_ray.simulation import RoundRecord, Simulation
from heterofl_ray.tracking.destination import check_destination
from heterofl_ray.tracking.flops import training_flops
from heterofl_ray.tracking.folder import create_run_folder
from heterofl_ray.tracking.history import History, HistoryFile
from heterofl_ray.tracking.models import write_models
from heterofl_ray.tracking.recorder import Recorder

MOVED = ("megabytes_down", "megabytes_up")


def run(
    config: ExperimentConfig | str,
    *,
    data_dir: Path | str | None = None,
    progress: Progress | None = None,
) -> RunResult:
    """Train as ``config`` says, or as the preset or YAML file of that name says.

    Equal configs give equal models, byte for byte.
    """
    if isinstance(config, str):
        config = presets.load(config)
    root = data_place(data_dir)
    preflight.check(config, stored(root))
    check_destination(config.tracking)
    config = settled(config)
    bench = make_bench(config, root)
    if config.execution.trainer == "measure":
        config = config.override([f"execution.trainer={measured(bench)}"])
        bench = make_bench(config, root)
    return _Run(bench, create_run_folder(config, root), progress or Silent()).complete()


def resume(
    folder: Path | str,
    *,
    overrides: Sequence[str] = (),
    data_dir: Path | str | None = None,
    progress: Progress | None = None,
) -> RunResult:
    """Go on with a run from its last checkpoint; the result is what it would have been.

    ``overrides`` may change where it runs, not what is computed.
    """
    folder = Path(folder)
    if not (folder / "config.yaml").is_file():
        raise DataError(f"{folder} is not the folder of a run: it has no config.yaml")
    values, written = load_run_yaml(folder / "config.yaml")
    root = data_place(data_dir or written)
    with settings_of(folder / "config.yaml"):
        config = ExperimentConfig.from_dict(values)
    config = config.override(overrides)
    preflight.check(config, stored(root))
    last = checkpoint.newest(folder / CHECKPOINTS)
    bench = make_bench(config, root)
    if last.progress.experiment != experiment_name(bench):
        raise DataError(
            f"{folder}: its checkpoint is of {last.progress.experiment}, but config.yaml and the "
            f"data in {root} are {experiment_name(bench)} now"
        )
    _check_fits(last, bench, folder)
    return _Run(bench, folder, progress or Silent()).complete(last)


def _check_fits(last: checkpoint.Checkpoint, bench: Workbench, folder: Path) -> None:
    """Refuse tensors that are not the model's; a method's server may hold others beside them."""
    layout, held = bench.layout(bench.config.levels.largest), last.parameters
    if not any(name in held for name in layout):
        return
    for name, axes in layout.items():
        wanted = tuple(axis.width for axis in axes)
        if name not in held or tuple(held[name].shape) != wanted:
            raise DataError(f"{folder}: its checkpoint has no {name} of shape {wanted}")


def settled(config: ExperimentConfig) -> ExperimentConfig:
    """The config as its method runs it."""
    method: type[Simulation] = resolve(config.method)
    return method.settle(config)


def make_bench(config: ExperimentConfig, root: Path) -> Workbench:
    """The driver's own workbench; a width that cannot be built is refused before training."""
    bench = Workbench(config, root, resolve_device(config.execution.device))
    if config.network.pretrained:  # refuses what does not fit before a server would
        registry.initial(bench.spec, config.levels.largest.rate)
    for level in config.levels.levels:
        _refuse_running_statistics(config.model, bench.model(level))
        _refuse_queried_statistics(config, bench.model(level))
        if config.execution.trainer != "measure":
            chosen(bench, level)  # refuses what cannot be
    resolve(config.method).check(bench)
    return bench


def _refuse_running_statistics(name: str, model: nn.Module) -> None:
    """Statistics kept while training would go from client to client with the worker's model."""
    for path, module in model.named_modules():
        if getattr(module, "track_running_stats", False):
            raise ConfigError(
                f"model {name!r}: {path} ({type(module).__name__}) keeps running statistics, which "
                "belong to no client; use heterofl_ray.models.layers.StaticBatchNorm, or "
                "track_running_stats=False"
            )


def _refuse_queried_statistics(config: ExperimentConfig, model: nn.Module) -> None:
    """Every client's examples go into a static batch norm's statistics, and no noise does."""
    if config.privacy.on and needs_calibration(model):
        raise ConfigError.of(
            "network.norm",
            config.network.norm,
            f"with privacy.noise above 0 model={config.model} must not ask clients for a static "
            "batch norm's statistics: gn, ln, in or none",
        )


def experiment_name(bench: Workbench) -> str:
    """Names all that decides a result: the settings and the data's content."""
    return f"{bench.config.hash()}/{'+'.join(bench.data_folders.values())}"


def make_backend(bench: Workbench) -> Backend:
    server = resolve(bench.config.method).server
    if bench.config.execution.backend == "ray":
        from heterofl_ray.execution.ray_backend import RayBackend

        return RayBackend(bench, server)
    return LocalBackend(bench, server)


class _Run:
    """One run in its folder."""

    def __init__(self, bench: Workbench, folder: Path, progress: Progress) -> None:
        self._bench = bench
        self._config = bench.config
        self._folder = folder
        self._progress = progress
        flops = training_flops(bench.config, bench.spec, bench.data_root / "costs")
        self._history = History(bench.config, flops)
        self._history_file = HistoryFile(folder)
        dataset = bench.data.dataset
        self._recorder = Recorder(bench.config, folder, dataset.info, dataset.folder)
        self._scores: dict[str, Scores] = {}
        self._keeper = Keeper(bench.config, folder, experiment_name(bench))

    def complete(self, last: checkpoint.Checkpoint | None = None) -> RunResult:
        """Train to the end; how that comes about is recorded, whichever way it ends."""
        if last is not None:
            self._history.rows = [dict(row) for row in last.progress.rows]
            self._keeper.kept = last.progress.round_number
        try:
            with self._recorder as recorder:
                recorder.resumed(self._history.rows)
                result = self._train(last)
                if recorder.is_on:
                    write_models(result, self._bench, self._folder)
        finally:
            self._recorder.settle(self._progress.say)
        return result

    def _train(self, last: checkpoint.Checkpoint | None) -> RunResult:
        started = time.perf_counter()
        with self._progress as shown:
            moved = sum(map(self._history.total, MOVED))
            shown.start(self._config, self._folder, self._keeper.kept, moved)
            if levels := not_yet_compiled(self._bench):
                shown.say(
                    f"training steps at {', '.join(levels)} are compiled first: a minute or two "
                    "for each level, once on a machine"
                )
            backend = make_backend(self._bench)
            try:
                with stopping():  # only now: Ray sets a handler for SIGTERM when it starts
                    backend.fallback = self._keeper.older
                    if last is not None:
                        backend.restore(last.progress.round_number, last.parameters, last.clients)
                    simulation = resolve(self._config.method)(self._bench, backend)
                    self._rounds(simulation, backend, shown)
                    self._keeper.settle(backend)
                    parameters, clients = simulation.final()
                    if not self._scores:  # resumed after the last round
                        self._scores = simulation.test(self._config.rounds)
                    statistics = _statistics(self._scores, backend)
            finally:
                backend.close()
        return self._result(parameters, clients, statistics, time.perf_counter() - started)

    def _rounds(self, simulation: Simulation, backend: Backend, shown: Progress) -> None:
        record: RoundRecord | None = None
        outside = 0.0
        try:
            overlap = self._config.evaluation.overlap and self._config.execution.backend == "ray"
            for record in simulation.rounds_overlapped() if overlap else simulation.rounds():
                done = time.perf_counter()
                row = self._history.add(record, backend.workers, outside)
                self._scores = dict(record.scores)
                if self._keeper.is_due(backend, record.round_number):
                    self._keeper.keep(backend, record, self._history.rows)
                    self._history_file.write_if_due(self._history)
                self._recorder.round_done(row)
                shown.update(record, row)
                outside = time.perf_counter() - done
        except Interrupted as stop:
            self._keeper.settle(backend)
            if record is not None and self._keeper.kept < record.round_number:
                self._keeper.keep(backend, record, self._history.rows)
                self._keeper.settle(backend)
            raise Interrupted(stop.code, self._keeper.kept, self._folder) from None
        finally:
            if self._history.rows:
                self._history_file.write(self._history)
                self._recorder.round_done(self._history.rows[-1])

    def _result(
        self,
        parameters: dict[str, Tensor],
        clients: dict[int, Mapping[str, Tensor]],
        statistics: dict[str, Tensor],
        seconds: float,
    ) -> RunResult:
        result = RunResult(
            config=self._config,
            summary=summarise(
                self._config,
                self._folder,
                (self._history.total(MOVED[0]), self._history.total(MOVED[1])),
                self._scores,
                parameters,
                seconds,
                clients,
                self._history.rows[-1].get("epsilon"),
            ),
            history=self._history.table(),
            spec=self._bench.spec,
            parameters=parameters,
            statistics=statistics,
            clients=clients,
        )
        result.save(self._folder)
        return result


@contextmanager
def stopping() -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into `Interrupted`, so that a run ends with its state kept."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Interrupted(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may change what signals do
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _statistics(scores: dict[str, Scores], backend: Backend) -> dict[str, Tensor]:
    """Each tested level's norm statistics under names of their own."""
    tensors = {}
    for level, score in scores.items():
        if score.moments is None:
            continue
        moments: Moments = backend.fetch(score.moments)
        for layer, (mean, variance) in moments.averages().items():
            tensors[f"{level}/{layer}.mean"] = mean.float().cpu()
            tensors[f"{level}/{layer}.variance"] = variance.float().cpu()
    return tensors
