"""Every command that README and docs show is run here, in a form of seconds.

A command that is new there and that no rule below knows fails the test.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from itertools import pairwise
from pathlib import Path
from unittest import mock

import numpy as np
import psutil
import pytest

from heterofl_ray.cli import main
from heterofl_ray.methods.registry import METHODS
from heterofl_ray.models.registry import MODELS

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("documented")]

REPOSITORY = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
RUN = "runs/digits-a-e-20260101-120000"
SWEEP = "runs/sweep-digits-20260101-120000"

ELSEWHERE = {
    "make": "its parts are run by the tests themselves and by continuous integration",
    "ray job submit": "test_ray_jobs.py",
    "heterofl-ray submit": "test_ray_jobs.py",
}
SHORT = {"rounds": "1", "local_epochs": "1", "network.hidden": "[8,8]"}
ALONE = {"execution.address": "local"}
"""A Ray of its own: one that other tests run beside these may end at any time."""
SHORT_TEXT = {"rounds": "1", "fraction": "0.02", "network.layers": "1"}


def commands() -> list[str]:
    """The lines of the pages' plain code blocks that are commands."""
    found = set()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.M | re.S)
        plain = "\n".join(block for language, block in blocks if not language)
        for line in plain.splitlines():
            command = re.sub(r"\s+# .*", "", line).strip().removeprefix(".venv/bin/")
            if command.split(" ")[0] in ("heterofl-ray", "mlflow", "ray", "make", "python"):
                found.add(command)
    # data is imported before it is used
    return sorted(found, key=lambda command: (" import " not in command, command))


def elsewhere(command: str) -> str | None:
    return next((why for start, why in ELSEWHERE.items() if command.startswith(start)), None)


def setting_words(settings: dict[str, str]) -> list[str]:
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, data_root: Path) -> Path:
    """A folder with a finished run, a sweep, a settings file and data, as the pages assume."""
    folder = tmp_path_factory.mktemp("documented")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("HETEROFL_DATA_DIR", str(data_root))
        patch.setenv("HETEROFL_MLFLOW", "1")
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        settings = setting_words({"mix": "a-c-e", **SHORT})
        assert main(["run", "digits-dynamic", "--quiet", *settings]) == 0
        settings = setting_words({"tracking.mlflow": "false", **SHORT, **ALONE})
        assert main(["sweep", "levels-digits", "--trials", "2", "--quiet", *settings]) == 0
    for kind, name in (("digits", RUN), ("sweep", SWEEP)):
        (made,) = (folder / "runs").glob(f"{kind}-*")
        made.rename(folder / name)
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    (yaml,) = re.findall(r"^```yaml\n(.*?)^```", readme, re.M | re.S)
    (folder / "my.yaml").write_text(yaml, encoding="utf-8")
    random = np.random.default_rng(0)
    np.savez(
        folder / "PATH.npz",
        x=random.integers(0, 255, (400, 8, 8), dtype=np.uint8),
        y=np.arange(400) % 4,
    )
    put_texts(folder)
    shutil.copytree(REPOSITORY / "jobs", folder / "jobs")
    return folder


def put_texts(folder: Path) -> None:
    """Sentences as CoLA has them, and tagged words as CoNLL has them."""
    sentences = "".join(f"x\t{n % 2}\t\tThey sat down {n} times.\n" for n in range(200))
    words = "They O\nsat O\nin O\nKiel B-LOC\n\n" * 200
    for path, text in (
        ("CoLA/train.tsv", sentences),
        ("CoLA/dev.tsv", sentences),
        ("conll/train.txt", words),
        ("conll/test.txt", words),
    ):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


def short(words: list[str]) -> list[str]:
    """The same command on little data, for one round, in this process."""
    match words:
        case ["heterofl-ray", "run", name, *_]:
            given = [after for word, after in pairwise(words) if word == "--set"]
            settings = dict(setting.split("=", 1) for setting in given)
            settings |= SHORT_TEXT if name.startswith("pydocs") else SHORT
            if "tracking.uri" in settings:
                settings["tracking.mlflow"] = "false"
            if "/best/" in name:  # whichever trial is on the front
                name = str(next(Path(name).parent.glob("*.yaml")))
            if "--address" in words:  # nobody's cluster is there
                settings |= {"execution.backend": "local", "data": "digits"}
            if name.startswith("fedmd") or settings.get("method") == "fedmd":
                settings |= {"fedmd.pretrain_epochs": "1", "fedmd.private_epochs": "1"}
            if name.startswith("mnist"):
                settings["optimizer.milestones"] = "[]"
            flags = [flag for flag in ("--json",) if flag in words]
            return ["heterofl-ray", "run", name, *setting_words(settings), *flags]
        case ["heterofl-ray", "sweep", name, *_] if name.startswith("levels"):
            return [*words, "--trials", "2", *setting_words(SHORT | ALONE)]
        case ["heterofl-ray", "compare", *_]:
            return [*words, *setting_words(SHORT), "--seeds", "1"]
        case ["heterofl-ray", "reproduce", *_]:
            settings = {"data": "digits", **SHORT, "network.hidden": "[8,8,8,8]"}
            del settings["rounds"]
            return [*words, "--rounds", "1", *setting_words(settings)]
        case ["heterofl-ray", "data", "import", *_]:
            return [word.replace("PATH", "PATH.npz") for word in words]
        case ["python", script, *_]:
            few = ["--trials", "2"] if "sweep" in script else []
            settings = setting_words({"rounds": "1"} | ALONE)
            return [*words, "--smoke", "--backend", "local", *few, *settings]
        case _:
            return words


def test_there_are_commands_and_each_rule_is_of_use() -> None:
    shown = commands()
    assert len(shown) > 15
    for start in ELSEWHERE:
        assert any(command.startswith(start) for command in shown), start


@pytest.mark.parametrize("command", [c for c in commands() if elsewhere(c) is None])
def test_a_documented_command_works(
    command: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    words = short(shlex.split(command))
    if words[0] == "mlflow":
        serves(words, place)
    elif words[0] == "python":
        done = subprocess.run([str(BIN / words[0]), *words[1:]], cwd=place, timeout=300)
        assert done.returncode == 0
    elif words[1:3] == ["data", "fetch"]:
        assert main(words[1:]) in (0, 2)  # 2: no network, said in one line
    else:
        assert main(words[1:]) == 0


def serves(words: list[str], place: Path) -> None:
    """A page is there soon, and the process that gives it is then ended."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [str(BIN / words[0]), *words[1:], "--port", str(port), "--workers", "1"],
        cwd=place,
        env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},  # nobody asks for jobs
    )
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                page = urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5)
            except OSError:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.5)
            else:
                assert b"MLflow" in page.read()
                return
    finally:
        family = [process, *psutil.Process(process.pid).children(recursive=True)]
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:  # how MLflow ends is not ours
            for each in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill()


def test_the_pages_python_works(
    place: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All Python blocks one after another, for one round each; a later one uses earlier names."""
    monkeypatch.chdir(place)
    names: dict[str, object] = {}
    blocks = 0
    with mock.patch.dict(METHODS), mock.patch.dict(MODELS):
        for page in PAGES:
            for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S):
                text = re.sub(r"rounds=\d+", "rounds=1", block)
                text = text.replace("~/.cache/heterofl-ray", str(data_root))
                exec(compile(text, str(page), "exec"), names)  # noqa: S102 our own pages
                blocks += 1
    assert blocks >= 4
    assert (place / "c.onnx").is_file()
