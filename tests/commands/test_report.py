"""The report command, as a user calls it."""

from __future__ import annotations

import json
import subprocess
import sys
import webbrowser
from pathlib import Path

import pytest

from heterofl_ray.cli import main
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.runner import run


@pytest.fixture
def folder(tiny: ExperimentConfig) -> Path:
    return Path(run(tiny).summary["run_dir"])


def test_json_is_one_object_that_lists_what_was_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(folder), "--out", "here", "--json"]) == 0
    output = capsys.readouterr()
    made = json.loads(output.out)
    assert made["report"] == "here/index.html"
    assert made["runs"] == [str(folder)]
    assert made["left_out"] == {}
    written = {str(path) for path in Path("here").iterdir()}
    assert written == {
        made["report"],
        *(file for files in made["figures"].values() for file in files),
    }
    assert len(written) == 1 + 2 * 7


def test_where_it_is_written_unless_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(folder)]) == 0
    assert (folder / "report" / "index.html").is_file()
    assert capsys.readouterr().out == f"report on 1 run in {folder}/report/index.html\n"
    assert main(["report", str(folder.parent), "--format", "svg"]) == 0
    made = folder.parent / "report"
    assert (made / "index.html").is_file()
    assert not list(made.glob("*.png"))
    assert main(["report", str(folder.parent), str(folder)]) == 0
    assert Path("report/index.html").is_file()


def test_open_shows_the_page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: not shown.append(address))
    assert main(["report", str(folder), "--open"]) == 0
    assert shown == [(folder / "report" / "index.html").absolute().as_uri()]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere: there is no such folder"),
        (["empty"], "empty is neither the folder of a run nor does it hold one"),
        (["file.txt"], "file.txt is a file; name the run's folder"),
        (["foreign"], "foreign is not the folder of a run: unknown setting 'port'"),
        (["empty", "--format", "pdf"], "--format='pdf' is not valid"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("empty").mkdir()
    Path("foreign").mkdir()
    Path("foreign/config.yaml").write_text("port: 80\n")
    Path("file.txt").touch()
    assert main(["report", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert said in output.err


def test_a_place_that_cannot_be_written_to(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file.txt").touch()
    assert main(["report", str(folder), "--out", "file.txt"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_run_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["report"])
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_wrong_folders_are_answered_before_anything_heavy_is_imported() -> None:
    script = (
        "import sys\n"
        "from heterofl_ray.cli import main\n"
        "code = main(['report', 'nowhere'])\n"
        "heavy = {'torch', 'matplotlib', 'pyarrow'} & set(sys.modules)\n"
        "sys.exit(7 if heavy else code)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
