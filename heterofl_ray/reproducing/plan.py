"""The runs that a table or figure needs: one config for each, however many values it gives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from heterofl_ray import preflight, presets
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.places import stored
from heterofl_ray.errors import ConfigError, DataError
from heterofl_ray.reproducing.exhibits import Cell, Exhibit


@dataclass(frozen=True)
class Piece:
    """A run, and which values it is for."""

    config: ExperimentConfig
    name: str
    key: str
    """The hash of the config as the plan has it; the run's own may have fewer rounds."""


@dataclass(frozen=True)
class ReproductionPlan:
    exhibit: Exhibit
    seeds: int
    rounds: int | None
    """None: as many as the paper's."""
    overrides: tuple[str, ...]
    """Settings changed by the user, and where it is run."""
    out: Path

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise ConfigError.of("--seeds", self.seeds, "must be 1 or more")
        if self.rounds is not None and self.rounds < 1:
            raise ConfigError.of("--rounds", self.rounds, "must be 1 or more")

    @property
    def folder(self) -> Path:
        """Of the table or figure; runs lie beside it, since several may show the same."""
        return self.out / self.exhibit.name

    def config(self, cell: Cell, seed: int) -> ExperimentConfig:
        """A cell's run; every seed is the preset's plus 0, 1, …"""
        config = presets.load(cell.preset).override([*cell.settings, *self.overrides])
        if self.rounds is not None:
            config = shortened(config, self.rounds)
        return config.override([f"seed={config.seed + seed}", f"tracking.root={self.out / 'runs'}"])

    def keys(self, cell: Cell) -> list[str]:
        """What a cell's runs are known by, one for each seed."""
        return [self.config(cell, seed).hash() for seed in range(self.seeds)]

    def pieces(self) -> list[Piece]:
        """Every run once, in the table's order, the first seed of all before the second."""
        found: dict[str, Piece] = {}
        for seed in range(self.seeds):
            for row in self.exhibit.rows:
                for cell in row.cells:
                    config = self.config(cell, seed)
                    key = config.hash()
                    name = f"{row.name} {cell.column}" + (f" seed {seed}" if seed else "")
                    found.setdefault(key, Piece(config, name, key))
        return list(found.values())

    def without_missing_data(self, root: Path) -> tuple[ReproductionPlan, dict[str, str]]:
        """The plan for the data there is; of the rest, why it is left out."""
        reasons: dict[str, str] = {}
        rows = []
        for row in self.exhibit.rows:
            cells = [cell for cell in row.cells if self._has_data(cell, root, reasons)]
            if cells:
                rows.append(replace(row, cells=tuple(cells)))
        if not rows:
            raise DataError(f"{self.exhibit.name}: {'; '.join(reasons.values())}")
        return replace(self, exhibit=replace(self.exhibit, rows=tuple(rows))), reasons

    def _has_data(self, cell: Cell, root: Path, reasons: dict[str, str]) -> bool:
        config = self.config(cell, 0)
        if config.data not in reasons:
            missing = _missing(config, root)
            if missing is None:
                return True
            reasons[config.data] = missing
        return False


def _missing(config: ExperimentConfig, root: Path) -> str | None:
    """Why there is no data for it; other mistakes are errors."""
    if not preflight.is_known(config, stored(root)):
        return f"{config.data} is not there yet: heterofl-ray data import PATH --name {config.data}"
    try:
        preflight.check_data(config, root)
    except DataError as missing:
        return str(missing)
    preflight.check(config, stored(root))
    return None


def shortened(config: ExperimentConfig, rounds: int) -> ExperimentConfig:
    """The same with other rounds; the learning rate falls at the same parts of the way."""
    falls = (round(m * rounds / config.rounds) for m in config.optimizer.milestones)
    kept = sorted({fall for fall in falls if 0 < fall < rounds})
    return config.override([f"rounds={rounds}", f"optimizer.milestones={kept}"])


def command(config: ExperimentConfig, cell: Cell) -> str:
    """What a user types to have this run alone."""
    base = presets.load(cell.preset)
    words = [*cell.settings]
    if config.rounds != base.override(cell.settings).rounds:
        words.append(f"rounds={config.rounds}")
        words.append(f"optimizer.milestones={list(config.optimizer.milestones)}".replace(" ", ""))
    if config.seed != base.seed:
        words.append(f"seed={config.seed}")
    return f"heterofl-ray run {cell.preset} " + " ".join(f"--set {word}" for word in words)
