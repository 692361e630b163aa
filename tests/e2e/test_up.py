"""``cluster/local/up.sh`` as a user types it: nodes that ask for a token, gone with Ctrl-C.

Its ports are Ray's usual ones, so it gets a network of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from .nodes import LOCAL, SECONDS, Namespaces, can_make_namespaces, wait_for
from .watching import below, words_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not can_make_namespaces(), reason="network namespaces cannot be made here (root, ip)"
    ),
]

NODES = """
import os, urllib.error, urllib.request
shown = {"Authorization": f"Bearer {os.environ['SHOWN']}"} if "SHOWN" in os.environ else {}
question = urllib.request.Request("http://127.0.0.1:8265/api/v0/nodes", headers=shown)
try:
    print(urllib.request.urlopen(question, timeout=30).read().decode())
except urllib.error.HTTPError as error:
    print(error.code)
except OSError:
    pass
"""


@pytest.fixture
def network() -> Iterator[Namespaces]:
    made = Namespaces()
    yield made
    made.close()


@pytest.fixture
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="u"))  # sockets have short names
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_a_head_and_a_worker_until_ctrl_c(network: Namespaces, home: Path) -> None:
    inside = network.enter(0)
    log = home / "log"
    plain = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    # What a shell starts in the background ignores Ctrl-C, with all it starts in turn: these tests,
    # too. A user's terminal does not.
    hearing = ["env", "--default-signal=INT"]
    with log.open("w") as output:
        process = subprocess.Popen(
            [*inside, *hearing, str(LOCAL / "up.sh"), "1"],
            env={**plain, "HOME": str(home), "RAY_TMPDIR": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def ask(**shown: str) -> str:
        command = [*inside, sys.executable, "-c", NODES]
        done = subprocess.run(command, env=plain | shown, capture_output=True, text=True)
        return done.stdout.strip()

    def states() -> list[str]:
        assert process.poll() is None, log.read_text()
        file = home / ".ray" / "auth_token"
        told = ask(SHOWN=file.read_text()) if file.is_file() else ""
        nodes = json.loads(told)["data"]["result"]["result"] if told.startswith("{") else []
        return [node["state"] for node in nodes]

    wait_for(lambda: states() == ["ALIVE", "ALIVE"], log.read_text)
    assert ask() == "401"
    started = below(process.pid)
    words = [word for each in started for word in words_of(each)]
    (disks,) = {Path(word).parent for word in words if word.startswith("--temp-dir=/tmp/nodes.")}
    disks = Path(str(disks).removeprefix("--temp-dir="))
    assert disks.is_dir()

    # One that does not end is ended, and the head stays until then: workers would look for it.
    (head,) = (each for each in started if {"start", "--head"} <= set(words_of(each)))
    (worker,) = (
        each for each in started if {"start", f"--temp-dir={disks}/0"} <= set(words_of(each))
    )
    worker.suspend()
    os.killpg(process.pid, signal.SIGINT)
    gone, _ = psutil.wait_procs([head], timeout=10)
    assert gone == []
    assert process.wait(SECONDS) == 130, log.read_text()
    _, left = psutil.wait_procs(started, timeout=SECONDS)
    assert left == []
    assert not disks.exists()
