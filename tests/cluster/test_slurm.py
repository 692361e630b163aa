"""``cluster/slurm/job.sbatch`` as Slurm runs it, with commands of Slurm's that only take notes.

The notes are files: one for each step, with the words it was started with and what its environment
says of the token. The head's step 'listens' once it has made its note; a question for its port is
answered after that. The job waits for both workers, as it would for their CPUs.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from .files import CLUSTER, REPOSITORY

JOB_ID = 1234567
PORT = 20000 + JOB_ID % 10000
SECONDS = 120.0

SCONTROL = """#!/bin/sh
[ "$*" = "show hostnames node[1-3]" ] && printf 'node1\\nnode2\\nnode3\\n'
"""

SRUN = """#!/bin/bash
note=$(mktemp "$NOTES/XXXXXX.part")
{
    printf '%s\\n' "$RAY_AUTH_MODE" "$RAY_AUTH_TOKEN_PATH" "${RAY_AUTH_TOKEN-}"
    stat --format=%a "$RAY_AUTH_TOKEN_PATH" "$(dirname "$RAY_AUTH_TOKEN_PATH")"
    cat "$RAY_AUTH_TOKEN_PATH"; echo
    printf '%s\\n' "$@"
} >"$note"
mv "$note" "${note%.part}.step"
last() {
    trap 'kill $!; sleep 0.3; echo '"$1"' >>"$NOTES/ended"; exit 0' TERM
    sleep 600 &
    wait
}
case "$*" in
    *head.sh*) [ -z "$NO_HEAD" ] || exit 1; touch "$NOTES/listens"; last head ;;
    *worker.sh*) [ -e "$NOTES/listens" ] || exit 9; touch "$NOTES/joined.$$"; last worker ;;
    */dev/tcp/*) [ -e "$NOTES/listens" ] ;;
    *)
        until [ "$(find "$NOTES" -name 'joined.*' | wc -l)" = 2 ]; do sleep 0.1; done
        [ -z "$LASTING" ] || { touch "$NOTES/trains"; last job; }
        exit 7 ;;
esac
"""


@dataclass(frozen=True)
class Step:
    """What a step was told."""

    mode: str
    token_path: Path
    token_given: str
    modes: tuple[str, ...]
    token: str
    words: list[str]

    @property
    def node(self) -> str:
        return self.words[3].removeprefix("--nodelist=")

    @property
    def command(self) -> list[str]:
        return self.words[4:]

    def option(self, name: str) -> str:
        (found,) = [word for word in self.command if word.startswith(f"--{name}=")]
        return found.partition("=")[2]


class Allocation:
    """Three nodes of Slurm's, and the script on the first."""

    def __init__(self, place: Path) -> None:
        self.home, self.notes, commands = place / "home", place / "notes", place / "bin"
        for folder in (self.home, self.notes, commands):
            folder.mkdir()
        for name, text in (("scontrol", SCONTROL), ("srun", SRUN)):
            (commands / name).write_text(text)
            (commands / name).chmod(0o755)
        self._log = place / "log"
        self._environment = {
            "PATH": f"{commands}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "NOTES": str(self.notes),
            "SLURM_SUBMIT_DIR": str(REPOSITORY),
            "SLURM_JOB_ID": str(JOB_ID),
            "SLURM_JOB_NODELIST": "node[1-3]",
            "SLURM_CPUS_PER_TASK": "8",
            "SLURM_GPUS_ON_NODE": "2",
            "RAY_AUTH_TOKEN": "of another Ray",
        }

    def start(self, *words: str, **environment: str) -> None:
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                ["bash", str(CLUSTER / "slurm" / "job.sbatch"), *words],
                env=self._environment | environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def steps(self, of: str) -> list[Step]:
        """Those whose command has this in it."""
        found = []
        for path in self.notes.glob("*.step"):
            mode, place, given, file, folder, token, *words = path.read_text().splitlines()
            found.append(Step(mode, Path(place), given, (file, folder), token, words))
        return [step for step in found if of in " ".join(step.command)]

    def wait_for(self, ask: Callable[[], object]) -> None:
        end = time.monotonic() + SECONDS
        while not ask():
            assert time.monotonic() < end, self._log.read_text()
            time.sleep(0.05)

    def is_empty(self) -> bool:
        try:
            os.killpg(self.process.pid, 0)  # asks only
        except ProcessLookupError:
            return True
        return False

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)  # all are of the session made for it
            self.process.wait()


@pytest.fixture
def allocation(tmp_path: Path) -> Iterator[Allocation]:
    made = Allocation(tmp_path)
    yield made
    made.close()


def test_a_node_each_and_the_job_on_the_first(allocation: Allocation) -> None:
    allocation.start("jobs/mnist_dynamic.py", "--set", "rounds=3")
    assert allocation.process.wait(SECONDS) == 7, "the job's own"

    for step in allocation.steps(of=""):
        assert step.words[:3] == ["--nodes=1", "--ntasks=1", "--overlap"]
    (head,) = allocation.steps(of="head.sh")
    assert (head.node, head.command[0]) == ("node1", "cluster/local/head.sh")
    assert head.option("port") == str(PORT)
    assert head.option("include-dashboard") == "false"
    workers = sorted(allocation.steps(of="worker.sh"), key=lambda step: step.node)
    assert [worker.node for worker in workers] == ["node2", "node3"]
    for worker in workers:
        assert worker.command[:2] == ["cluster/local/worker.sh", f"node1:{PORT}"]
    for node in (head, *workers):
        assert (node.option("num-cpus"), node.option("num-gpus")) == ("8", "2")
    assert len({node.option("temp-dir") for node in (head, *workers)}) == 3
    questions = allocation.steps(of="/dev/tcp/")
    assert {(step.node, step.command[-1]) for step in questions} == {
        ("node1", f": </dev/tcp/node1/{PORT}")
    }
    (job,) = allocation.steps(of="jobs/")
    assert job.node == "node1"
    assert job.command[:2] == [".venv/bin/python", "jobs/mnist_dynamic.py"]
    assert job.command[2:] == ["--set", "rounds=3", "--address", f"node1:{PORT}"]


def test_a_token_of_its_own_that_no_command_says_and_that_goes_with_it(
    allocation: Allocation,
) -> None:
    allocation.start()
    allocation.process.wait(SECONDS)
    steps = allocation.steps(of="")
    (token,) = {step.token for step in steps}
    (place,) = {step.token_path for step in steps}
    assert re.fullmatch("[0-9a-f]{64}", token)
    assert place.parent.parent == allocation.home / ".ray"
    for step in steps:
        assert (step.mode, step.token_given) == ("token", "")
        assert step.modes == ("600", "700")
        assert not any(token in word for word in step.words)
    assert list((allocation.home / ".ray").iterdir()) == []


def test_slurm_ends_it_in_time_and_nothing_stays(allocation: Allocation) -> None:
    allocation.start(LASTING="1")
    allocation.wait_for((allocation.notes / "trains").exists)
    assert allocation.steps(of="jobs/wikitext_dynamic.py")
    time.sleep(0.3)  # it can hear of it
    allocation.process.send_signal(signal.SIGTERM)
    assert allocation.process.wait(SECONDS) == 143
    # the job writes its last checkpoint while its Ray is there, and workers leave before their head
    ended = (allocation.notes / "ended").read_text().split()
    assert ended == ["job", "worker", "worker", "head"]
    assert list((allocation.home / ".ray").iterdir()) == []
    allocation.wait_for(allocation.is_empty)


def test_a_head_that_cannot_start_ends_it(allocation: Allocation) -> None:
    allocation.start(NO_HEAD="1")
    assert allocation.process.wait(SECONDS) == 1
    assert allocation.steps(of="worker.sh") == []
    assert allocation.steps(of="jobs/") == []
    assert list((allocation.home / ".ray").iterdir()) == []
