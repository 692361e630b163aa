"""The rules of the house that a machine can check: who may import whom, and what stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import heterofl_ray

PACKAGE = Path(heterofl_ray.__file__).parent

# From the ground up: a room may use the rooms before it, never one after it.
ROOMS = [
    "errors",
    "plain_files",
    "private_folders",
    "participants",
    "mixes",
    "settings",
    "setting_groups",
    "method_settings",
    "trust_settings",
    "config",
    "presets",
    "randomness",
    "models",
    "data",
    "submodels",
    "privacy",
    "clients",
    "aggregation",
    "state",
    "checkpoint",
    "parameter_server",
    "execution",
    "evaluation",
    "simulation",
    "keeping",
    "methods",
    "preflight",
    "result",
    "reporting",
    "tracking",
    "progress",
    "runner",
    "comparing",
    "reproducing",
    "tuning",
    "exporting",
    "commands",
    "cli",
    "jobs",
    "reference",
]

ONLY_IN: dict[str, set[str]] = {
    "pyarrow": {"data", "result", "reporting", "tracking"},
    "ray": {"execution", "tuning"},
    "mlflow": {"tracking"},
    "optuna": {"tuning"},
    "torchvision": {"data"},
    "dp_accounting": {"privacy"},
}

FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """Every module a file imports, at its top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            if node.module == "heterofl_ray":
                found |= {f"heterofl_ray.{alias.name}" for alias in node.names}
    return found


def test_every_file_has_a_room() -> None:
    assert {room_of(path) for path in FILES} <= set(ROOMS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_upwards_only(path: Path) -> None:
    mine = ROOMS.index(room_of(path))
    for module in imports(path):
        top, _, rest = module.partition(".")
        if top == "heterofl_ray" and rest and not rest.startswith("__"):
            theirs = ROOMS.index(rest.split(".")[0])
            assert theirs <= mine, f"{path.name} imports {module}, which lives below it"
        if top in ONLY_IN:
            assert room_of(path) in ONLY_IN[top], f"{path.name} imports {top}"


def test_torchvision_reads_published_data_sets_and_decodes_no_image() -> None:
    """Its decoders have had vulnerabilities (docs/security.md); images are read by Pillow."""
    used = {module for path in FILES for module in imports(path) if "torchvision" in module}
    assert used == {"torchvision.datasets"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_explain_themselves_and_hold_one_duty(path: Path) -> None:
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text)), f"{path.name} has no docstring"
    assert len(text.splitlines()) <= 350, f"{path.name} has grown; split it by duty"


HEAVY = ("torch", "ray", "mlflow", "optuna", "pyarrow", "sklearn", "matplotlib", "pandas")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["run", "--help"],
        ["costs", "--help"],
        ["settings"],
        ["costs", "--model", "covn"],
        ["costs", "--model", "conv", "--input", "28"],
        ["costs", "--model", "conv", "--mix", "a0"],
        ["run", "digits-dynamc"],
        ["run", "digits-dynamic", "--set", "rouds=3"],
        ["run", "digits-dynamic", "--set", "model=covn"],
        ["run", "digits-dynamic", "--set", "data=digitz"],
        ["run", "digits-dynamic", "--set", "method=heterofI"],
        ["run", "digits-dynamic", "--set", "model=transformer"],
        ["compare", "--help"],
        ["compare", "methods-digits", "--methods", "heterofI"],
        ["compare", "methods-digits", "--seeds", "0"],
    ],
    ids=" ".join,
)
def test_help_and_mistakes_are_answered_before_anything_heavy_is_imported(
    arguments: list[str],
) -> None:
    script = (
        "import sys\n"
        "from heterofl_ray.cli import main\n"
        "try:\n"
        f"    code = main({arguments!r})\n"
        "except SystemExit as stop:\n"
        "    code = stop.code\n"
        f"heavy = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "assert not heavy, heavy\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "AssertionError" not in done.stderr, done.stderr
    wrong = arguments[0] in ("run", "costs", "compare") and "--help" not in arguments
    assert done.returncode == (2 if wrong else 0)
