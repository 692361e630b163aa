"""The reference pages in docs/, made from the parser and the settings themselves.

``python -m heterofl_ray.reference`` writes them; a test says when they are out of date.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from heterofl_ray.cli import make_parser
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.settings import Checked, describe
from heterofl_ray.tuning.settings import SweepSettings

MADE = "<!-- Made by `make docs` from the code itself: change it there. -->\n"


def pages() -> dict[str, str]:
    """Every page's text by its path within docs/."""
    parser = make_parser()
    texts = {f"commands/{name}.md": _page(command) for name, command in _commands(parser)}
    return {"commands/README.md": _index(parser), **texts, "settings.md": _settings()}


def _commands(
    parser: argparse.ArgumentParser,
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _index(parser: argparse.ArgumentParser) -> str:
    lines = [MADE, "# Commands\n", "| command | what it does |", "|---|---|"]
    for name, command in _commands(parser):
        lines.append(f"| [`heterofl-ray {name}`]({name}.md) | {command.description} |")
    return "\n".join(lines) + "\n"


def _page(command: argparse.ArgumentParser) -> str:
    parts = [MADE, f"# {command.prog}\n", f"{_sentence(command.description or '')}\n"]
    actions = list(_commands(command))
    if not actions:
        parts.append(_usage(command))
    for name, action in actions:
        parts.append(f"## {name}\n\n{_sentence(action.description or '')}\n\n{_usage(action)}")
    return "\n".join(parts)


def _usage(command: argparse.ArgumentParser) -> str:
    """How it is called, and a table of all it takes."""
    taken = [action for action in command._actions if action.dest != "help"]
    words = [command.prog, *(_called(action) for action in taken)]
    rows = [f"| {_names(action)} | {_about(action)} |" for action in taken]
    table = ["| takes | |", "|---|---|", *rows, ""] if rows else []
    return "\n".join(["```", " ".join(words), "```", "", *table])


def _called(action: argparse.Action) -> str:
    if not action.option_strings:
        word = _placeholder(action)
        many = {"+": f"{word} [{word} …]", "*": f"[{word} …]", "?": f"[{word}]"}
        return many.get(str(action.nargs), word)
    word = action.option_strings[-1] + _value(action)
    return word if action.required else f"[{word}]"


def _names(action: argparse.Action) -> str:
    if not action.option_strings:
        return f"`{_placeholder(action)}`"
    return ", ".join(f"`{name}{_value(action)}`" for name in action.option_strings)


def _value(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    many = " …" if action.nargs in ("+", "*") else ""
    return f" {_placeholder(action)}{many}"


def _placeholder(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper()


def _about(action: argparse.Action) -> str:
    about = (action.help or "").replace("|", "\\|").replace("%%", "%")
    shown = action.default not in (None, False, [], argparse.SUPPRESS) and action.nargs != 0
    return f"{about} (default: `{action.default}`)" if shown else about


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _settings() -> str:
    lines = [
        MADE,
        "# Settings\n",
        "`--set NAME=VALUE`, YAML files and `ExperimentConfig` take the same names.\n",
        "| setting | default | what it does |",
        "|---|---|---|",
    ]
    lines += _rows(ExperimentConfig())
    lines += [
        "\nOf a [sweep](sweeps.md), beside `sweep.space` and `sweep.constraints`:\n",
        "| setting | default | what it does |",
        "|---|---|---|",
    ]
    return "\n".join(lines + _rows(SweepSettings())) + "\n"


def _rows(config: Checked) -> list[str]:
    rows = []
    for name, entry in describe(config).items():
        choices = f" (one of: {', '.join(entry['choices'])})" if entry["choices"] else ""
        about = f"{entry['about']}{choices}".replace("|", "\\|")
        rows.append(f"| `{name}` | `{entry['default']}` | {about} |")
    return rows


def write(folder: Path) -> None:
    """Write all pages, and remove those of commands that are gone."""
    texts = pages()
    for old in (folder / "commands").glob("*.md"):
        if f"commands/{old.name}" not in texts:
            old.unlink()
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
