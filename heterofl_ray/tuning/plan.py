"""What a sweep is: an experiment, the settings that vary, objectives and constraints.

It is read from a preset or a YAML file, which holds an experiment's settings and a ``sweep`` group,
and is kept in the sweep's folder in the same form.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from heterofl_ray import presets
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError, DataError, suggestion
from heterofl_ray.plain_files import parse_yaml
from heterofl_ray.settings import assign, load_yaml, settings_of, unknown_setting
from heterofl_ray.tuning.objectives import Limit, Objective, parse_limits, parse_objectives
from heterofl_ray.tuning.presets import SWEEPS
from heterofl_ray.tuning.settings import SweepSettings
from heterofl_ray.tuning.space import Space, parse_space

FILE = "sweep.yaml"
_TABLES = ("space", "constraints")
"""Parts of the group that are not single settings."""


@dataclass(frozen=True)
class Kept:
    """What a sweep's file says beside its plan."""

    data_dir: str
    study: str
    """Optuna's name for it, whatever becomes of the folder's."""


@dataclass(frozen=True)
class SweepPlan:
    base: ExperimentConfig
    settings: SweepSettings
    tables: Mapping[str, Any]
    """The space and the constraints as they were written."""

    @cached_property
    def space(self) -> Space:
        return parse_space(self.tables.get("space"), self.base)

    @cached_property
    def limits(self) -> list[Limit]:
        return parse_limits(self.tables.get("constraints"))

    @cached_property
    def objectives(self) -> list[Objective]:
        return parse_objectives(self.settings.objectives, self.base)

    def check(self) -> None:
        """Refuse what is wrong in itself, before anything heavy is imported."""
        space, _, _ = self.space, self.limits, self.objectives
        if self.settings.sampler == "grid":
            space.grid()
        if self.settings.stopping != "none":
            self._check_stopping()

    def _check_stopping(self) -> None:
        stopping, every = self.settings.stopping, self.base.evaluate_every
        if not every or every >= self.base.rounds:
            raise ConfigError.of(
                "sweep.stopping", stopping, f"no test on the way: evaluate_every={every}"
            )
        if self.settings.grace > self.base.rounds:
            raise ConfigError.of(
                "sweep.grace", self.settings.grace, f"beyond the run: rounds={self.base.rounds}"
            )

    def point(self, settings: Mapping[str, Any], seed: int = 0) -> ExperimentConfig:
        """The experiment at a point of the space; ``seed`` counts repeated runs from 0."""
        nested: dict[str, Any] = {"seed": self.base.seed + seed}
        for name, value in settings.items():
            group, dot, last = name.rpartition(".")
            place = nested.setdefault(group, {}) if dot else nested
            place[last] = list(value) if isinstance(value, tuple) else value
        return self.base.merge(nested)

    def override(self, assignments: Sequence[str]) -> SweepPlan:
        """The plan with ``name=value``, ``sweep.name=value`` or ``sweep.space.name=value``."""
        mine = [text for text in assignments if text.strip().startswith("sweep.")]
        base = self.base.override([text for text in assignments if text not in mine])
        values = {**_plain(self.settings)}
        tables = {name: dict(self.tables.get(name) or {}) for name in _TABLES}
        for text in mine:
            name, equals, value = text.strip().removeprefix("sweep.").partition("=")
            table, dot, inner = name.partition(".")
            if dot and equals and table in tables:
                tables[table][inner.strip()] = _yaml_value(name, value)
            else:
                if equals and name.strip() not in values:
                    raise unknown_setting(SweepSettings, f"sweep.{name.strip()}")
                assign(SweepSettings, values, text.strip().removeprefix("sweep."))
        return SweepPlan(base, SweepSettings.from_dict(values), tables)

    def params(self) -> dict[str, str]:
        """What a tracker keeps of the sweep, beside the experiment's settings."""
        plain = _plain(self.settings)
        del plain["storage"]  # it may hold a password
        found = {f"sweep.{name}": value for name, value in plain.items()}
        for table, rows in self.tables.items():
            found |= {f"sweep.{table}.{name}": value for name, value in rows.items()}
        return {name: v if isinstance(v, str) else json.dumps(v) for name, v in found.items()}

    def write(self, folder: Path, kept: Kept) -> None:
        """Keep it in the sweep's folder; a storage's password is not written down."""
        import yaml

        from heterofl_ray.tracking.destination import without_password

        sweep = _plain(self.settings) | {k: v for k, v in self.tables.items() if v}
        sweep["storage"] = without_password(self.settings.storage)
        values = {**dataclasses.asdict(kept), **self.base.to_dict(), "sweep": sweep}
        text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
        (folder / FILE).write_text(text, encoding="utf-8")


def load_plan(name_or_path: str) -> SweepPlan:
    """A sweep preset's plan, or a YAML file's."""
    if name_or_path in SWEEPS:
        return make_plan(SWEEPS[name_or_path](), name_or_path)
    path = Path(name_or_path)
    if path.suffix not in (".yaml", ".yml"):
        raise ConfigError(
            f"{name_or_path!r} is neither a sweep nor a YAML file: "
            f"{suggestion(name_or_path, SWEEPS)}sweeps: {', '.join(SWEEPS)}"
        )
    return make_plan(load_yaml(path), str(path))


def read_plan(folder: Path) -> tuple[SweepPlan, Kept]:
    """The plan of a sweep's folder, and where its data and its trials lie."""
    if not (folder / FILE).is_file():
        raise DataError(f"{folder} is not the folder of a sweep: it has no {FILE}")
    values = load_yaml(folder / FILE)
    kept = Kept(str(values.get("data_dir", "")), str(values.get("study", folder.name)))
    return make_plan(values, str(folder / FILE)), kept


def make_plan(values: Mapping[str, Any], where: str) -> SweepPlan:
    """The plan of nested plain values; ``where`` they are from is named with what is wrong."""
    own = ("sweep", *(entry.name for entry in dataclasses.fields(Kept)))
    rest = {name: value for name, value in values.items() if name not in own}
    sweep = values.get("sweep")
    with settings_of(where):
        if not isinstance(sweep, Mapping):
            raise ConfigError("has no 'sweep:' group that says what to vary (sweep.space)")
        tables = {name: sweep[name] for name in _TABLES if sweep.get(name) is not None}
        for name, table in tables.items():
            if not isinstance(table, Mapping):
                raise ConfigError.of(
                    f"sweep.{name}", table, "must be a group, one 'name: …' a line"
                )
        flat = {name: value for name, value in sweep.items() if name not in _TABLES}
        settings = SweepSettings.from_dict(flat)
        return SweepPlan(presets.from_values(rest), settings, tables)


def _plain(settings: SweepSettings) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(settings)))
    return plain


def _yaml_value(name: str, text: str) -> Any:
    try:
        return parse_yaml(text)
    except ValueError:
        raise ConfigError.of(f"sweep.{name}", text, "cannot be read as a value") from None
