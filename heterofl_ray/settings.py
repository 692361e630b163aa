"""Strict settings: frozen dataclasses whose fields say what is valid.

The machinery under `config`: types and limits checked when a config is made, unknown names refused
with a suggestion, ``group.name=value`` texts and YAML read into plain values.
"""

from __future__ import annotations

import dataclasses
import math
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self, cast, get_args, get_origin, get_type_hints

from heterofl_ray.errors import ConfigError, shown, suggestion
from heterofl_ray.plain_files import parse_yaml, read_yaml


def setting(
    default: Any,
    about: str,
    *,
    choices: tuple[str, ...] = (),
    low: float = -math.inf,
    high: float = math.inf,
    above: float = -math.inf,
    runtime: bool = False,
) -> Any:
    """A field with its description and its valid values: low <= value <= high, value > above.

    ``runtime`` settings say where and how a run works and cannot change what it computes.
    """
    limits = {"about": about, "choices": choices, "low": low, "high": high, "above": above}
    return field(default=default, metadata={**limits, "runtime": runtime})


def _range_text(limits: Mapping[str, Any]) -> str:
    parts = []
    if limits["above"] > -math.inf:
        parts.append(f"above {limits['above']:g}")
    if limits["low"] > -math.inf:
        parts.append(f"{limits['low']:g} or more")
    if limits["high"] < math.inf:
        parts.append(f"at most {limits['high']:g}")
    return "must be " + " and ".join(parts)


_LARGEST_NUMBER = sys.float_info.max
_TYPE_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


class Checked:
    """Checks types and limits of every field when a config is made."""

    group: ClassVar[str] = ""

    def __post_init__(self) -> None:
        hints = _hints(type(self))
        for entry in dataclasses.fields(cast(Any, self)):
            name = f"{self.group}{entry.name}"
            value = _coerced(name, getattr(self, entry.name), hints[entry.name])
            object.__setattr__(self, entry.name, value)
            if entry.metadata:
                _check_limits(name, value, entry.metadata)
        self._check_together()

    def _check_together(self) -> None:
        """What fields must satisfy jointly; each group says its own."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """A config from nested plain values; unknown keys are refused."""
        hints = _hints(cls)
        known = [name for name in hints if name != "group"]
        given: dict[str, Any] = {}
        for key, value in values.items():
            if key not in known:
                raise unknown_setting(cls, f"{cls.group}{key}")
            given[key] = _group_value(f"{cls.group}{key}", value, hints[key])
        return cls(**given)


def _group_value(name: str, value: Any, hint: Any) -> Any:
    if not (isinstance(hint, type) and issubclass(hint, Checked)) or isinstance(value, hint):
        return value
    if not isinstance(value, Mapping):
        raise ConfigError.of(name, value, f"a group of settings, such as {name}.{_first(hint)}")
    return hint.from_dict(value)


def _first(group: type) -> str:
    return dataclasses.fields(group)[0].name


def _hints(cls: type[Any]) -> Mapping[str, Any]:
    """The types of its fields."""
    return _hints_once(cast(Any, cls))


@cache
def _hints_once(cls: Any) -> Mapping[str, Any]:
    """Kept, since every config that is made asks for them."""
    return {k: v for k, v in get_type_hints(cls).items() if get_origin(v) is not ClassVar}


def setting_names(root: type[Checked]) -> list[str]:
    """Every setting below ``root`` by its full name."""
    names = []
    for key, hint in _hints(root).items():
        if isinstance(hint, type) and issubclass(hint, Checked):
            names += setting_names(hint)
        else:
            names.append(f"{root.group}{key}")
    return names


def describe(config: Checked) -> dict[str, dict[str, Any]]:
    """Every setting of ``config`` by its full name: its value, what it does, its choices."""
    described: dict[str, dict[str, Any]] = {}
    for entry in dataclasses.fields(cast(Any, config)):
        value = getattr(config, entry.name)
        if isinstance(value, Checked):
            described |= describe(value)
        else:
            described[f"{config.group}{entry.name}"] = {
                "default": list(value) if isinstance(value, tuple) else value,
                "about": entry.metadata["about"],
                "choices": list(entry.metadata["choices"]),
                "runtime": entry.metadata["runtime"],
            }
    return described


def unknown_setting(root: type[Checked], name: str) -> ConfigError:
    """The error for a name that is no setting: the nearest one, and what there is."""
    names = setting_names(root)
    namesakes = [full for full in names if full.split(".")[-1] == name.split(".")[-1]]
    hint = f"did you mean {namesakes[0]!r}? " if namesakes else suggestion(name, names)
    own = len(root.group)
    known = dict.fromkeys(
        full.split(".")[0] + ".*" if "." in full[own:] else full for full in names
    )
    return ConfigError(f"unknown setting {shown(name)}: {hint}known: {', '.join(known)}")


def _coerced(name: str, value: Any, hint: Any) -> Any:
    """``value`` as the field's type, where that loses nothing; a clear error otherwise."""
    if get_origin(hint) is tuple:
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            raise ConfigError.of(name, value, "must be a list, such as [1, 2]")
        return tuple(_coerced(name, item, get_args(hint)[0]) for item in value)
    if hint is float and isinstance(value, (int, str)) and not isinstance(value, bool):
        try:
            value = float(value)
        except (ValueError, OverflowError):
            raise ConfigError.of(name, value, f"must be {_TYPE_NAMES[float]}") from None
    if hint is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, hint) or (hint is not bool and isinstance(value, bool)):
        raise ConfigError.of(name, value, f"must be {_TYPE_NAMES.get(hint, hint)}")
    return value


def _check_limits(name: str, value: Any, limits: Mapping[str, Any]) -> None:
    if limits["choices"] and value not in limits["choices"]:
        raise ConfigError.unknown(name, value, limits["choices"])
    for item in value if isinstance(value, tuple) else (value,):
        if isinstance(item, (int, float)) and not (
            -_LARGEST_NUMBER <= item <= _LARGEST_NUMBER
            and limits["low"] <= item <= limits["high"]
            and item > limits["above"]
        ):
            raise ConfigError.of(name, value, _range_text(limits))


def find_setting(root: type[Checked], name: str) -> tuple[Any, Mapping[str, Any]]:
    """A setting's type and what its field says about it; an unknown name is refused."""
    cls = root
    *groups, last = name.split(".")
    for group in groups:
        hint = _hints(cls).get(group)
        if not (isinstance(hint, type) and issubclass(hint, Checked)):
            raise unknown_setting(root, name)
        cls = hint
    entries = {entry.name: entry for entry in dataclasses.fields(cast(Any, cls))}
    if last not in entries or not entries[last].metadata:  # a group is no setting
        raise unknown_setting(root, name)
    return _hints(cls)[last], entries[last].metadata


def checked_value(root: type[Checked], name: str, value: Any) -> Any:
    """``value`` as the setting's type, within the setting's own limits."""
    hint, limits = find_setting(root, name)
    value = _coerced(name, value, hint)
    _check_limits(name, value, limits)
    return value


def assign(root: type[Checked], values: dict[str, Any], assignment: str) -> None:
    """Put one ``group.name=value`` into nested plain values."""
    name, equals, text = assignment.partition("=")
    if not equals:
        raise ConfigError(f"--set {shown(assignment)} is not valid: write it as name=value")
    name = name.strip()
    cls = root
    *groups, last = name.split(".")
    place = values
    for group in groups:
        hint = _hints(cls).get(group)
        if not (isinstance(hint, type) and issubclass(hint, Checked)):
            raise unknown_setting(root, name)
        cls, place = hint, place[group]
    hint = _hints(cls).get(last)
    if hint is None:
        raise unknown_setting(cls, name)
    place[last] = _parsed(name, text, hint)


def _parsed(name: str, text: str, hint: Any) -> Any:
    """A typed text as a plain value. Texts stay as typed: 'mix=1:2' must not become a number."""
    if hint is str:
        return text
    try:
        value = parse_yaml(text)
    except ValueError:
        raise ConfigError.of(name, text, "cannot be read as a value") from None
    if isinstance(hint, (types.GenericAlias,)) and isinstance(value, (int, float)):
        return [value]
    return value


def load_yaml(path: Path) -> dict[str, Any]:
    """The settings in a YAML file, not yet checked."""
    values = read_yaml(path)
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise ConfigError(f"{path}: must hold settings, one 'name: value' a line")
    return values


def load_run_yaml(path: Path) -> tuple[dict[str, Any], str | None]:
    """The settings in a run's own config.yaml, and where it says that its data was."""
    values = load_yaml(path)
    place = values.pop("data_dir", None)
    if not (place is None or isinstance(place, str)) or "\0" in (place or ""):
        raise ConfigError(f"{path}: data_dir={shown(place)} is not valid: must be a folder's path")
    return values, place


@contextmanager
def settings_of(where: object) -> Iterator[None]:
    """Names the file in whatever is found wrong with the settings in it."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
