"""Running an experiment from its config to a `RunResult`, with everything kept in its folder."""

from __future__ import annotations

import time
from pathlib import Path

from torch import Tensor

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.evaluation import Scores
from heterofl_ray.progress import Progress, Silent
from heterofl_ray.result import RunResult, summarise
from heterofl_ray.simulation import Simulation
from heterofl_ray.tracking import History, create_run_folder


def run(
    config: ExperimentConfig,
    *,
    data_dir: Path | str | None = None,
    progress: Progress | None = None,
) -> RunResult:
    """Train as ``config`` says. Equal configs give equal models, byte for byte."""
    started = time.perf_counter()
    simulation = Simulation(config, Path(data_dir) if data_dir is not None else None)
    folder = create_run_folder(config)
    history = History(config)
    scores: dict[str, Scores] = {}
    try:
        with progress or Silent() as shown:
            shown.start(config, folder)
            for record in simulation.rounds():
                history.add(record)
                scores = dict(record.scores)  # of the last round, which is always tested
                shown.update(record)
    finally:
        simulation.close()
    parameters = {name: tensor.cpu() for name, tensor in simulation.server.parameters.items()}
    result = RunResult(
        config=config,
        summary=summarise(
            config, folder, history, scores, parameters, time.perf_counter() - started
        ),
        history=history.table(),
        spec=simulation.bench.spec,
        parameters=parameters,
        statistics=_statistics(scores),
    )
    result.save(folder)
    return result


def _statistics(scores: dict[str, Scores]) -> dict[str, Tensor]:
    """Each tested level's norm statistics under names of their own."""
    tensors = {}
    for level, score in scores.items():
        if score.moments is None:
            continue
        for layer, (mean, variance) in score.moments.averages().items():
            tensors[f"{level}/{layer}.mean"] = mean.float().cpu()
            tensors[f"{level}/{layer}.variance"] = variance.float().cpu()
    return tensors
