"""The two kinds of mistake a user can make; the command line shows either as one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ConfigError(ValueError):
    """A setting is wrong. The message names the setting, its value and what is valid."""

    @classmethod
    def of(cls, setting: str, value: object, valid: str) -> ConfigError:
        return cls(f"{setting}={_shown(value)} is not valid: {valid}")

    @classmethod
    def unknown(cls, setting: str, value: object, known: Iterable[str]) -> ConfigError:
        """A name that is not among the known ones; a close spelling is suggested."""
        names = list(known)
        return cls.of(setting, value, f"{suggestion(str(value), names)}known: {', '.join(names)}")


class DataError(Exception):
    """A data set is missing, damaged or does not fit. The message says which and what to do."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """``did you mean 'conv'? `` when a known name is close to what was typed, else nothing."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}? " if close else ""


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
