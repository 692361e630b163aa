"""The data commands, as a user calls them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heterofl_ray.cli import main


@pytest.fixture
def arrays(tmp_path: Path) -> Path:
    path = tmp_path / "arrays.npz"
    np.savez(path, x=np.zeros((20, 6, 5), np.uint8), y=np.arange(20) % 2, writer=np.arange(20) % 4)
    return path


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["data", *arguments, "--json"]) == 0
    printed = capsys.readouterr()
    values: dict[str, Any] = json.loads(printed.out)
    assert printed.err == ""
    return values


def test_import_then_info_then_list(
    tmp_path: Path, arrays: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(tmp_path / "root")
    imported = answer(capsys, "import", str(arrays), "--name", "mine", "--data-dir", root)
    assert answer(capsys, "info", "mine", "--data-dir", root) == imported
    assert {key: imported[key] for key in ("name", "train", "test", "classes", "shape")} == {
        "name": "mine",
        "train": 16,
        "test": 4,
        "classes": 2,
        "shape": [1, 6, 5],
    }
    assert imported["clients"] == 4
    assert imported["bytes"] == sum(
        path.stat().st_size for path in Path(imported["folder"]).iterdir()
    )
    assert "vocabulary" not in imported
    listed = answer(capsys, "list", "--data-dir", root)
    states = {row["name"]: row["state"] for row in listed["data"]}
    assert states["mine"] == "ready"
    assert states["digits"] == "embedded"
    assert states["synthetic-text"] == "generated"
    assert states["cifar10"] == "needs files"


def test_files_in_place_are_seen_and_damage_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "raw/ptb").mkdir(parents=True)
    (tmp_path / "raw/ptb/ptb.train.txt").write_text("a b c d e f g h i j\n" * 3)
    (tmp_path / "broken.json").write_text("{")
    rows = answer(capsys, "list", "--data-dir", str(tmp_path))["data"]
    states = {row["name"]: row["state"] for row in rows}
    assert states["ptb"] == "files to convert"
    assert states["broken"] == "damaged"
    info = answer(capsys, "info", "ptb", "--data-dir", str(tmp_path))
    assert (info["vocabulary"], info["train"], info["test"]) == (12, 30, 3)
    assert "classes" not in info


def test_info_makes_what_can_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    info = answer(capsys, "info", "synthetic-text:300", "--data-dir", str(tmp_path))
    assert (info["name"], info["train"], info["vocabulary"]) == ("synthetic-text-300", 300, 2001)
    assert info["task"] == "text"


def test_tables_for_people(
    tmp_path: Path, arrays: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = ["--data-dir", str(tmp_path / "root")]
    assert main(["data", "import", str(arrays), "--name", "mine", *root]) == 0
    shown = capsys.readouterr().out
    assert "1x6x5" in shown
    assert main(["data", "list", *root]) == 0
    shown = capsys.readouterr().out
    assert "mine" in shown
    assert "needs files" in shown


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["info", "mnits"], "did you mean 'mnist'"),
        (["info", "mnist"], "heterofl-ray data fetch mnist"),
        (["info", "../x"], "known:"),
        (["fetch", "digits"], "nothing to download"),
        (["fetch", "nothing"], "known:"),
        (["import", "nowhere", "--name", "x"], "nowhere does not exist"),
        (["import", ".", "--name", "../x"], "name '../x' is not valid"),
        (["import", ".", "--name", "x", "--size", "32"], "--size='32' is not valid"),
        (["import", ".", "--name", "x", "--size", "0x3"], "--size='0x3' is not valid"),
        (["import", ".", "--name", "x", "--size", "9999999x3"], "is not valid"),
        (["import", ".", "--name", "x"], "holds nothing that can be read"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", *arguments, "--data-dir", str(tmp_path / "root"), "--json"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert says in printed.err
    assert not (tmp_path / "root").exists()


def test_partition_is_a_data_command(capsys: pytest.CaptureFixture[str]) -> None:
    values = answer(capsys, "partition", "digits", "--clients", "10")
    assert values["clients"] == 10


@pytest.mark.parametrize(
    "arguments",
    [["data", "--help"], ["data", "list"], ["data", "info", "mnits"], ["data", "fetch", "digits"]],
    ids=" ".join,
)
def test_answers_without_anything_heavy(arguments: list[str]) -> None:
    script = (
        "import sys\n"
        "from heterofl_ray.cli import main\n"
        "try:\n"
        f"    main({arguments!r})\n"
        "except SystemExit:\n"
        "    pass\n"
        "heavy = {'torch', 'pyarrow', 'ray', 'mlflow', 'numpy', 'PIL'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
