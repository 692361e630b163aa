"""What can go wrong, in kinds the command line knows how to show."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable
from pathlib import Path


class ConfigError(ValueError):
    """A setting is wrong. The message names the setting, its value and what is valid."""

    @classmethod
    def of(cls, setting: str, value: object, valid: str) -> ConfigError:
        return cls(f"{setting}={shown(value)} is not valid: {valid}")

    @classmethod
    def unknown(cls, setting: str, value: object, known: Iterable[str]) -> ConfigError:
        """A name that is not among the known ones; a close spelling is suggested."""
        names = list(known)
        return cls.of(setting, value, f"{suggestion(str(value), names)}known: {', '.join(names)}")


class DataError(Exception):
    """A data set is missing, damaged or does not fit. The message says which and what to do."""


class ClientError(Exception):
    """A client's own training failed: who, where, and the error as it was raised there."""

    def __init__(self, message: str, trace: str = "") -> None:
        super().__init__(message, trace)  # both, so that it survives being pickled
        self.message = message
        self.trace = trace

    def __str__(self) -> str:
        return self.message


class GpuFull(ClientError):
    """A client's training found no memory on its GPU; alone on it, it may."""


class RunFailed(Exception):
    """The run cannot go on. The message says what was tried and what to look at."""


class Interrupted(BaseException):
    """The user or the system asked the run to stop; what was committed is kept."""

    def __init__(self, code: int, round_number: int = 0, folder: Path | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.round_number = round_number
        self.folder = folder

    def __str__(self) -> str:
        if self.folder is None or not self.round_number:
            return "stopped before the first round was kept"
        return (
            f"stopped after round {self.round_number}; "
            f"go on with: heterofl-ray resume {self.folder}"
        )


def suggestion(name: str, known: Iterable[str]) -> str:
    """``did you mean 'conv'? `` when a known name is close to what was typed, else nothing."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}? " if close else ""


def shown(value: object) -> str:
    """A value in at most 80 characters, whatever it is."""
    short = reprlib.Repr()
    short.maxstring = short.maxlong = short.maxother = 80
    short.maxlist = short.maxtuple = short.maxdict = short.maxset = 20
    try:
        text = short.repr(value)
    except ValueError:  # Python writes out no number of more than 4300 digits
        text = "a number of thousands of digits"
    return text if len(text) <= 80 else text[:77] + "..."
