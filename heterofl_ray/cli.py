"""The ``heterofl-ray`` command. A user's mistake is one line on standard error and exit code 2."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import NoReturn

from heterofl_ray import __version__
from heterofl_ray.commands import (
    bench,
    compare,
    costs,
    data,
    export,
    report,
    reproduce,
    resume,
    run,
    settings,
    submit,
    sweep,
    track,
)
from heterofl_ray.commands.base import Command, add_commands
from heterofl_ray.errors import ClientError, ConfigError, DataError, Interrupted, RunFailed

COMMANDS: tuple[Command, ...] = (
    run,
    resume,
    sweep,
    compare,
    reproduce,
    submit,
    report,
    export,
    data,
    track,
    costs,
    bench,
    settings,
)


class Parser(argparse.ArgumentParser):
    """argparse, with errors of one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (--help shows how to call it)\n")


def make_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="heterofl-ray",
        description="Federated learning with clients of unequal strength.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    add_commands(parser, "COMMAND", COMMANDS, "execute")
    return parser


def _warning_line(message: Warning | str, *_: object, **__: object) -> str:
    return f"heterofl-ray: warning: {message}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    rest: list[str] = []
    if words[:1] == [submit.NAME] and "--" in words:  # what follows is the job's own
        dashes = words.index("--")
        words, rest = words[:dashes], words[dashes + 1 :]
    parsed = make_parser().parse_args(words)
    parsed.rest = rest
    return answer(lambda: parsed.execute(parsed))


def answer(work: Callable[[], int | None]) -> int:
    """Do the work and give its exit code; what goes wrong is shown as users should see it."""
    try:
        plain, warnings.formatwarning = warnings.formatwarning, _warning_line
        try:
            return work() or 0
        finally:
            warnings.formatwarning = plain
    except (ConfigError, DataError) as error:
        words = " ".join(str(error).split())
        line = "".join(c if c.isprintable() else "�" for c in words)  # names in files may be any
        print(f"heterofl-ray: error: {line}", file=sys.stderr)
        return 2
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        print(f"heterofl-ray: error: {place}{error.strerror or error}", file=sys.stderr)
        return 2
    except ClientError as error:
        print(f"{error.trace}heterofl-ray: error: {error}", file=sys.stderr)
        return 1
    except RunFailed as error:
        print(f"heterofl-ray: error: {error}", file=sys.stderr)
        return 1
    except Interrupted as stop:
        print(f"heterofl-ray: {stop}", file=sys.stderr)
        return stop.code
    except KeyboardInterrupt:
        print("heterofl-ray: stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
