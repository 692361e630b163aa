"""What is fuzzed: for each target, a strategy of inputs and how one is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from heterofl_ray import checkpoint, presets, run
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.intake.importing import import_data
from heterofl_ray.data.intake.readers.contract import Options
from heterofl_ray.result import RunResult
from heterofl_ray.tuning.plan import load_plan

from . import checkpoints, configs, imports
from .judging import Yard


@dataclass(frozen=True)
class Target:
    """``read(yard, input)`` puts an input into the yard and has it judged."""

    inputs: st.SearchStrategy[Any]
    read: Callable[[Yard, Any], None]
    share: int
    """Of the inputs of a long run, in percent."""


def _yaml(yard: Yard, content: bytes) -> None:
    yard.given.mkdir()
    path = yard.given / "given.yaml"
    path.write_bytes(content)

    def read() -> None:
        config = presets.load(str(path))
        assert ExperimentConfig.from_dict(config.to_dict()) == config

    yard.judge("yaml", read)


def _plan(yard: Yard, content: bytes) -> None:
    yard.given.mkdir()
    path = yard.given / "given.yaml"
    path.write_bytes(b"sweep: {space: {lr: [0.1, 0.2]}}\n" + content)
    yard.judge("sweep yaml", lambda: load_plan(str(path)).check())


def _assignments(yard: Yard, texts: list[str]) -> None:
    yard.judge("--set", lambda: ExperimentConfig().override(texts))


def _checkpoint(yard: Yard, files: checkpoints.Files) -> None:
    folder = yard.given / "checkpoints"
    checkpoints.put(folder / "round-000002", files)

    def read() -> None:
        checkpoint.rows(folder)
        found = checkpoint.newest(folder)
        assert 0 < found.progress.round_number < 10**9
        checkpoint._prune(folder, 1, True)

    yard.judge("checkpoint", read)


def _result(yard: Yard, files: checkpoints.Files) -> None:
    folder = yard.given / "run"
    checkpoints.put(folder, files)

    def read() -> None:
        result = RunResult.open(folder)
        result.submodel(result.config.levels.levels[-1].name)

    yard.judge("run folder", read)


def _import(kind: str) -> Callable[[Yard, imports.Files], None]:
    def put_and_read(yard: Yard, files: imports.Files) -> None:
        folder = yard.given
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        alone = len(files) == 1 and "given." in next(iter(files))
        path = folder / next(iter(files)) if alone else folder

        def read() -> None:
            dataset = import_data(yard.target, path, "mine", Options())
            assert dataset.info.train > 0

        yard.judge(kind, read)

    return put_and_read


def finished_run(place: Path) -> checkpoints.Files:
    """The files of a run, to be tampered with."""
    config = ExperimentConfig.from_dict(
        {
            **{"data": "digits", "model": "conv", "mix": "a-c", "clients": 20, "fraction": 0.1},
            **{"rounds": 1, "local_epochs": 1, "network": {"hidden": [8, 8]}},
            **{"tracking": {"root": str(place / "runs"), "mlflow": False}},
        }
    )
    folder = Path(run(config, data_dir=place / "data").summary["run_dir"])
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def targets(valid_run: checkpoints.Files) -> dict[str, Target]:
    return {
        "config": Target(configs.texts(), _yaml, 20),
        "assignments": Target(configs.assignments(), _assignments, 10),
        "sweep": Target(configs.texts(), _plan, 4),
        "checkpoint": Target(checkpoints.checkpoints(), _checkpoint, 20),
        "result": Target(checkpoints.results(valid_run), _result, 6),
        **{
            f"import-{name}": Target(strategy, _import(name), 3)
            for name, strategy in imports.PLAIN.items()
        },
        "import-archive": Target(imports.archived(), _import("archive"), 10),
    }
